"""IsolationQuantileRegressor: the checks of scikit-learn, the learner of the pipeline, more rows later."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from ikmap import IsolationQuantileRegressor
from ikmap.learners.online.quantile_ogd import QuantileOGDState


@pytest.mark.parametrize("method", ["iforest", "anne"])
def test_it_is_the_learner_of_the_pipeline(method: str) -> None:
    rng = np.random.default_rng(0)
    X = rng.random((300, 3))
    y = X[:, 0] * rng.random(300)
    model = IsolationQuantileRegressor((0.2, 0.8), method=method, n_estimators=9, max_samples=8, random_state=1)
    model.fit(X, y)
    state = QuantileOGDState.start(model.partitions_.offsets, [0.2, 0.8], 0.5)
    cells = model.partitions_.cells(X).packed()
    state.partial_fit(cells, y)
    assert np.array_equal(model.predict_quantiles(X), np.sort(state.decision_function(cells), axis=1))
    assert np.array_equal(model.predict(X), model.predict_quantiles(sp.csr_array(X))[:, 0])
    before = model.predict(X)
    model.partial_fit(X[:50], y[:50])
    assert not np.array_equal(model.predict(X), before)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"method": "kd"}, "method: found 'kd', expected one of iforest, anne"),
        ({"quantiles": (0.9, 0.1)}, "quantiles: found"),
        ({"eta": 0.0}, "eta: found 0.0, expected a number > 0"),
    ],
)
def test_parameters_out_of_range(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        IsolationQuantileRegressor(**wrong).fit(np.eye(5), np.arange(5.0))
