"""Compiled counting of rows in cells."""

from ikmap.compiled import compiled


@compiled(
    {
        "cell-masses narrow": "u1[:, ::1], i8[::1], i8, f8[::1]",
        "cell-masses wide": "u2[:, ::1], i8[::1], i8, f8[::1]",
        "cell-masses": "u4[:, ::1], i8[::1], i8, f8[::1]",
    }
)
def count_rows(codes, offsets, absent, masses):
    """masses[offsets[j] + code] += 1 for each code of each row; `absent` is none."""
    n, t = codes.shape
    for i in range(n):
        for j in range(t):
            if codes[i, j] != absent:
                masses[offsets[j] + codes[i, j]] += 1.0
