"""What kernels have whose one parameter is an inverse width."""

from __future__ import annotations

from ikmap.methods.fields import Symbol

GAMMAS = tuple(2.0**m for m in range(-10, 6))
"""Search range of a kernel's width that is not given by psi."""
WIDTH = Symbol(
    "γ",
    "inverse width of the kernel",
    "How quickly the similarity of two rows falls with their distance: a large γ lets only near rows count.",
)
"""What a report says of it."""
