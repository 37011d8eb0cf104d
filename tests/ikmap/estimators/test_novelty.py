"""The detector with the interface of scikit-learn."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from ikmap import IDKDetector
from ikmap.partitioners import draw_subsamples, fit_spheres
from tests.naive.novelty import similarities


def test_scores_are_those_of_the_definition() -> None:
    rng = np.random.default_rng(3)
    X, new = rng.normal(size=(90, 3)), 2 * rng.normal(size=(20, 3))
    detector = IDKDetector(n_estimators=9, random_state=5).fit(X)
    assert detector.max_samples_ == 22  # a quarter of the rows
    model = fit_spheres(X, draw_subsamples(90, 9, 22, 5))
    expected = similarities(model.cells(X).codes, model.cells(new).codes)
    assert np.allclose(detector.score_samples(new), expected, rtol=1e-13, atol=0)
    assert np.array_equal(detector.score_samples(sp.csr_array(new)), detector.score_samples(new))
    assert np.array_equal(detector.predict(new) == -1, detector.score_samples(new) < detector.offset_)
    assert abs((detector.predict(X) == -1).mean() - 0.05) <= 1 / 90


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"method": "kd"}, "method: found 'kd', expected one of inne, anne, iforest"),
        ({"contamination": 0.6}, "contamination"),
    ],
)
def test_parameters_out_of_range(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        IDKDetector(**wrong).fit(np.eye(5))
