"""Random Fourier features of the Gaussian and the Laplacian kernel (algorithms.md 7.1 and 13.1)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from ikmap._threads import single_threaded_blas
from ikmap.arrays import Floats
from ikmap.maps.projection import project
from ikmap.model import Model
from ikmap.rows import Rows
from ikmap.seeds import generator


@dataclass(frozen=True, eq=False)
class FourierMap(Model):
    """A map to features (sin(V x), cos(V x)) / sqrt(R) with R random frequencies.

    Parameters
    ----------
    frequencies : ndarray of float64, shape (R, d)
        V.

    Notes
    -----
    Source: Rahimi and Recht, "Random features for large-scale kernel machines"; orthogonal rows: Yu et al.,
    "Orthogonal random features".
    """

    kind: ClassVar[str] = "fourier"
    version: ClassVar[int] = 1

    frequencies: Floats

    @classmethod
    def gaussian(cls, n_frequencies: int, n_columns: int, gamma: float, seed: int, *, orthogonal: bool = False) -> Self:
        """Return a map to features of exp(-gamma |x - y|^2)."""
        directions = (orthogonal_normals if orthogonal else normals)(n_frequencies, n_columns, seed)
        return cls(math.sqrt(2.0 * gamma) * directions)

    @classmethod
    def laplacian(cls, n_frequencies: int, n_columns: int, gamma: float, seed: int) -> Self:
        """Return a map to features of exp(-gamma |x - y|_1)."""
        return cls(gamma * generator(seed).standard_cauchy((n_frequencies, n_columns)))

    @property
    def n_features(self) -> int:
        """Number 2 R of features."""
        return 2 * int(self.frequencies.shape[0])

    def transform(self, X: Rows, n_threads: int | None = None) -> Floats:
        """Return the features of rows, float64 of shape (n, 2 R), all sines first.

        Raises
        ------
        ValueError
            If a value is not finite or the number of columns is not d.
        """
        angles = project(X, self.frequencies.T, n_threads)
        return np.hstack([np.sin(angles), np.cos(angles)]) / math.sqrt(self.frequencies.shape[0])


def normals(n: int, n_columns: int, seed: int) -> Floats:
    """Return n independent standard normal vectors, float64 of shape (n, d)."""
    return generator(seed).standard_normal((n, n_columns))


def orthogonal_normals(n: int, n_columns: int, seed: int) -> Floats:
    """Return n standard normal vectors, orthogonal within blocks of d, float64 of shape (n, d).

    Their lengths are drawn from the chi distribution of d degrees of freedom.
    """
    blocks = [
        directions * np.sqrt(rng.chisquare(n_columns, len(directions)))[:, None]
        for directions, rng in orthogonal_directions(n, n_columns, seed)
    ]
    return np.concatenate(blocks) if blocks else np.zeros((0, n_columns))


def orthogonal_directions(
    n: int, n_columns: int, seed: int, *path: int
) -> Iterator[tuple[Floats, np.random.Generator]]:
    """Yield n unit vectors in blocks of at most d that are orthogonal to each other, and what drew each block.

    Each block is the Q of a normal matrix of only as many columns as are needed. Seed and path choose the generators,
    which can go on to draw lengths.
    """
    for block, start in enumerate(range(0, n, n_columns)):
        rng, rows = generator(seed, *path, block), min(n_columns, n - start)
        with single_threaded_blas:  # whose last bits depend on the number of threads
            Q, R = np.linalg.qr(rng.standard_normal((n_columns, rows)))
        Q *= np.sign(np.diagonal(R))  # uniform over all directions, which QR alone is not
        yield Q.T, rng
