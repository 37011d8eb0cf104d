"""Compiled draws of GCWS: for each hash and coordinate three random numbers, made of nothing but its key.

The logarithm is our own: only operations that IEEE 754 rounds in one way, so that its bits are those of any machine,
any library, any width of vectors.
"""

import numpy as np

from ikmap._simd import bits_of, double_of
from ikmap.compiled import compiled

LN2_HIGH = 0.6931471803691238
"""ln 2 to 33 bits, so that its product with an exponent is exact."""
LN2_LOW = 1.9082149292705877e-10
ROOT_HALF = np.int64(0x3FE6A09E667F3BCD)
"""Bits of the root of 1/2: from there to the root of 2, fractions are taken."""
SMALLEST_NORMAL, LIFT, LIFTED = 2.2250738585072014e-308, 2.0**54, 54.0

STEP = np.uint64(0x9E3779B97F4A7C15)
"""An odd number without pattern: 2^64 over the golden ratio."""
OF_COORDINATE = np.uint64(0xD1342543DE82EF95)
"""Another, by which coordinates are told apart."""
FIRST, SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
HALF_WORD = 2.0**-32
WORD_24 = 2.0**-24
LOW_32 = np.uint64(0xFFFFFFFF)
LANES = 32
"""Hashes that are made together: two vectors of float32."""


@compiled(error_model="numpy")
def logarithm(x):
    """ln x of a positive float64, to 1e-15 of it; with m in [sqrt(1/2), sqrt(2)), ln (m 2^e) = e ln 2 + 2 artanh s."""
    small = x < SMALLEST_NORMAL
    bits = bits_of(x * LIFT if small else x)
    exponent = (bits - ROOT_HALF) >> np.int64(52)
    m = double_of(bits - (exponent << np.int64(52)))
    e = float(exponent) - (LIFTED if small else 0.0)
    s = (m - 1.0) / (m + 1.0)
    z = s * s
    total = 1.0 / 19.0
    total = total * z + 1.0 / 17.0
    total = total * z + 1.0 / 15.0
    total = total * z + 1.0 / 13.0
    total = total * z + 1.0 / 11.0
    total = total * z + 1.0 / 9.0
    total = total * z + 1.0 / 7.0
    total = total * z + 1.0 / 5.0
    total = total * z + 1.0 / 3.0
    two = s + s
    return e * LN2_HIGH + (two + (two * (z * total) + e * LN2_LOW))


@compiled
def mixed(word):
    """A word in which every bit depends on every bit of another."""
    word = (word ^ (word >> np.uint64(30))) * FIRST
    word = (word ^ (word >> np.uint64(27))) * SECOND
    return word ^ (word >> np.uint64(31))


@compiled(error_model="numpy")
def gamma_of(word):
    """A draw from Gamma(2, 1) of the two halves of a word: -ln(U1 U2), neither of which is 0 or 1."""
    one = (float(word >> np.uint64(32)) + 0.5) * HALF_WORD
    two = (float(word & LOW_32) + 0.5) * HALF_WORD
    return -logarithm(one * two)


@compiled({"gcws": "f8[::1], f8[::1]"}, error_model="numpy")
def logarithms(x, out):
    """out = ln x."""
    for i in range(x.size):
        out[i] = logarithm(x[i])


@compiled({"gcws": "u8[::1], u8[::1], f4[:, :, ::1], u4[:, ::1]"}, error_model="numpy")
def draw(keys, coordinates, tables, labels):
    """Fill the tables of some coordinates, for the hashes with these keys (LANES of them).

    tables[s] = 1/r, beta, -r, and ln c - r (1 - beta), where r, c ~ Gamma(2, 1), beta ~ U(0, 1); labels[s]: 32 random
    bits each. One short loop for each number is what compilers make vectors of.
    """
    words = np.empty(LANES, np.uint64)
    r, log_c, beta = np.empty(LANES), np.empty(LANES), np.empty(LANES)
    flat, flat_labels = tables.reshape(-1), labels.reshape(-1)
    for s in range(coordinates.size):
        of_coordinate = coordinates[s] * OF_COORDINATE
        for j in range(LANES):
            words[j] = keys[j] + of_coordinate
        for j in range(LANES):
            r[j] = gamma_of(mixed(words[j] + STEP))
        for j in range(LANES):
            log_c[j] = logarithm(gamma_of(mixed(words[j] + STEP + STEP)))
        for j in range(LANES):
            words[j] = mixed(words[j] + STEP + STEP + STEP)
            beta[j] = float(words[j] >> np.uint64(40)) * WORD_24
        at = s * 4 * LANES
        for j in range(LANES):
            flat[at + j] = 1.0 / r[j]
        for j in range(LANES):
            flat[at + LANES + j] = beta[j]
        for j in range(LANES):
            flat[at + 2 * LANES + j] = -r[j]
        for j in range(LANES):
            flat[at + 3 * LANES + j] = log_c[j] - (r[j] - r[j] * beta[j])
        for j in range(LANES):
            flat_labels[s * LANES + j] = words[j] & LOW_32
