"""Two stages of random features come near to the eGMM kernel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from ikmap.learners.rows import Block
from ikmap.maps.two_stage import TwoStageMap
from ikmap.methods import Training, search_of
from ikmap.methods.gmm import VALUES
from ikmap.methods.two_stage_gmm import TwoStageGMM
from tests.naive import kernels as naive
from tests.naive.gcws import gcws_codes, pgmm
from tests.support.narrow import read_back


def rows(n: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, 5)) * (rng.random((n, 5)) < 0.8) + np.eye(n, 5)


@pytest.mark.parametrize("layout", [np.asarray, sp.csr_array])
def test_features_are_those_of_the_codes(layout: Callable[[np.ndarray], Any]) -> None:
    X = rows(9, 0)
    X[4] = 0.0
    one = TwoStageMap.draw(5, 3.0, codes=7, bits=3, features=6, seed=2)
    codes = gcws_codes(X, 2, 7, 1.0, 3)
    Z = np.zeros((9, 7 * 8))
    for i, row in enumerate(codes):
        for j, code in enumerate(row):
            if code >= 0:
                Z[i, 8 * j + code] = 1 / np.sqrt(7)
    expected = naive.fourier_features(Z, one.fourier.frequencies)
    np.testing.assert_allclose(one.transform(layout(X)), expected, atol=1e-12)
    stored = read_back(one)
    np.testing.assert_array_equal(stored.transform(layout(X)), one.transform(layout(X)))


@pytest.mark.slow
def test_products_come_near_to_the_kernel() -> None:
    X = rows(12, 1)
    expected = np.exp(-2.0 * (1.0 - pgmm(X, X, 1.0)))
    off = []
    for size in (16, 256):
        errors = []
        for seed in range(4):
            Z = TwoStageMap.draw(5, 2.0, codes=size, bits=8, features=size, seed=seed).transform(X)
            errors.append((Z @ Z.T - expected) ** 2)
        off.append(float(np.sqrt(np.mean(errors))))
    assert off[1] < 0.1  # a deviation of 1 / sqrt(512) of the second stage, and of le / sqrt(4 * 256) of the first
    assert off[1] < 0.5 * off[0]  # it is expected to fall to a quarter


def test_the_learner_is_a_linear_svm_on_them() -> None:
    X, y = rows(40, 3), (np.arange(40) % 2).astype(np.int32)
    learner, searched = TwoStageGMM.of_record({"features": 11, "codes": 16, "code_bits": 4})
    search = search_of(learner, searched, 100)
    assert search is not None
    assert (search.parameter, search.values) == ("le", VALUES["le"])
    model, _ = learner.at({"le": 2.0}).fit(Training(Block(X, y), [0, 1], 5))
    features = TwoStageMap.draw(5, 2.0, codes=16, bits=4, features=11, seed=5).transform(X)
    np.testing.assert_allclose(model.decision_function(X), model.linear.decision_function(features), rtol=1e-12)
    assert ((model.decision_function(X)[:, 0] >= 0) == y).mean() > 0.7
