"""Random Fourier features of the Laplace kernel: RF1 of algorithms.md, section 13."""

from __future__ import annotations

import numpy as np
import pytest

from ikmap.maps.fourier import FourierMap


def test_features_are_unbiased_and_their_error_falls_as_it_must() -> None:
    X = np.random.default_rng(0).random((25, 3))
    K = np.exp(-2.0 * np.abs(X[:, None] - X[None]).sum(axis=2))
    sizes, errors = (50, 200, 800, 3200), []
    for R in sizes:
        Z = FourierMap.laplacian(R, 3, 2.0, R).transform(X)
        errors.append(np.sqrt(np.mean((Z @ Z.T - K) ** 2)))
        assert errors[-1] < 1.5 * np.sqrt(np.mean(1 - K**2) / (2 * R))
    assert np.polyfit(np.log(sizes), np.log(errors), 1)[0] == pytest.approx(-0.5, abs=0.15)
    maps = [FourierMap.laplacian(20, 3, 2.0, seed).transform(X) for seed in range(300)]
    mean = np.mean([Z @ Z.T for Z in maps], axis=0)
    assert np.abs(mean - K).max() < 5 / np.sqrt(2 * 20 * 300)
