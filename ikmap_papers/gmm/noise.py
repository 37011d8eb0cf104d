"""A stand-in for the paper's M-Noise data: digits on a background of correlated noise.

The paper's are MNIST digits of 28 x 28 pixels, from "most correlated" (1) to "least" (6); these are square images of
any size, with a background whose values are uniform in [0, 1] and whose neighbours are the more alike the lower the
level.
"""

from __future__ import annotations

import math

import numpy as np

from ikmap.arrays import Floats
from ikmap.seeds import generator

WIDTHS = {1: 2.0, 2: 1.6, 3: 1.25, 4: 0.95, 5: 0.7, 6: 0.45}
"""Standard deviation, in pixels, of the blur that makes neighbours alike, by level."""
NOISE = 103
"""Stream of random numbers."""


def noisy(images: Floats, level: int, seed: int) -> Floats:
    """The images, lighter than their background: float64, shape (n, side * side), values in [0, 1].

    A pixel is the larger of the digit's, scaled to [0, 1] over all images, and the background's.

    Parameters
    ----------
    images : ndarray of float64, shape (n, side * side)
    level : int
        1 to 6.
    seed : int
        The background of the first k images is the same for any n >= k.
    """
    n, size = images.shape
    side = math.isqrt(size)
    low, high = images.min(), images.max()
    digits = (images - low) / (high - low)
    blur = _blur(side, WIDTHS[level])
    fields = generator(seed, NOISE, level).standard_normal((n, side, side))
    smooth = np.einsum("ab,nbc,dc->nad", blur, fields, blur, optimize=True)
    # Ranks of a normal distribution: rows of the blur have unit length, so each pixel is standard normal.
    background = 0.5 * (1.0 + _erf(smooth / math.sqrt(2.0)))
    noisy: Floats = np.maximum(digits, background.reshape(n, size))
    return noisy


def _blur(side: int, width: float) -> Floats:
    """Weights of a Gaussian around every place in a line, of unit length."""
    places = np.arange(side)
    weights = np.exp(-0.5 * ((places[:, None] - places) / width) ** 2)
    return np.asarray(weights / np.linalg.norm(weights, axis=1, keepdims=True))


def _erf(x: Floats) -> Floats:
    from scipy.special import erf

    return np.asarray(erf(x))
