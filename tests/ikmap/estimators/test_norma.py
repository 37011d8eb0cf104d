"""NORMA with the interface of scikit-learn: its checks, the learner of the pipeline, and more rows later."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from ikmap import CellNormaClassifier, CellNormaDetector, CellNormaRegressor
from ikmap.cells import Cells
from ikmap.learners.online.norma import NormaState
from ikmap.learners.online.norma_rule import usual_rule


def rows_of(n: int = 300, t: int = 9) -> tuple[Cells, np.ndarray]:
    rng = np.random.default_rng(0)
    x = rng.random(n)
    codes = np.clip(5 * x[:, None] + rng.normal(scale=0.6, size=(n, t)), 0, 4).astype(np.int32)
    return Cells(codes, 5 * np.arange(t + 1, dtype=np.int64)), 50 + 20 * x


@pytest.mark.parametrize("kind", [CellNormaClassifier, CellNormaRegressor, CellNormaDetector])
def test_it_is_the_learner_of_the_pipeline_in_any_pieces(kind: Any) -> None:
    cells, y = rows_of()
    more: dict[str, Any] = {}
    if kind is CellNormaClassifier:
        y, more = (y > 60).astype(int), {"classes": [0, 1]}
    model = kind(center=60.0, unit=5.0) if kind is CellNormaRegressor else kind()
    rule = usual_rule(model.loss)
    of: dict[str, Any] = {"center": 60.0, "unit": 5.0} if rule.of_numbers else {}
    state = NormaState.start(rule, cells.n_columns, 9.0, **of)
    state.partial_fit(cells.packed(), y.astype(np.int32) if rule.of_classes else y)
    whole, pieces = model.fit(cells, y), kind(**model.get_params())
    for start in range(0, y.size, 70):
        pieces.partial_fit(cells[start : start + 70], y[start : start + 70], **(more if start == 0 else {}))
    X = cells.to_csr()
    on_csr = kind(**model.get_params()).fit(X, y)
    for found in (whole, pieces):
        assert np.array_equal(found.state_.table, state.table)
        assert np.array_equal(found.predict(cells), whole.predict(cells))
    assert np.array_equal(on_csr.predict(X), whole.predict(cells))
    if kind is CellNormaDetector:
        assert np.array_equal(whole.predict(cells) == -1, whole.score_samples(cells) < whole.offset_)
        assert (whole.score_samples(cells) >= 0).all()
        assert (whole.score_samples(cells) <= 1 + 1e-12).all()
    else:
        assert whole.score(cells, y) > 0.8


def test_what_is_novel() -> None:
    rng = np.random.default_rng(1)
    offsets = 5 * np.arange(41, dtype=np.int64)
    usual = np.clip(2 + rng.normal(scale=0.7, size=(4000, 40)), 0, 4).astype(np.int32)
    strange = rng.choice([0, 4], size=(200, 40)).astype(np.int32)
    detector = CellNormaDetector(0.05).fit(Cells(usual[:3000], offsets))
    new = Cells(np.concatenate([usual[3000:], strange]), offsets)
    assert roc_auc_score(np.arange(1200) < 1000, detector.score_samples(new)) > 0.99
    assert (detector.predict(new)[1000:] == -1).mean() > 0.95
    assert (detector.predict(new)[:1000] == -1).mean() < 0.12
    last = CellNormaDetector(0.05, average=False).fit(Cells(usual[:3000], offsets))
    assert last.offset_ == last.state_.numbers.thresholds(False)[0]


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (CellNormaClassifier("squared"), "loss: found 'squared', expected one of hinge, nu, perceptron"),
        (CellNormaRegressor(eta=2.0), "eta: found 2 with the squared loss, expected a number below 1.99998"),
        (
            CellNormaRegressor("huber", threshold=0.0),
            "threshold: found 0 with the loss huber, expected a number >= 1e-06",
        ),
        (CellNormaRegressor(unit=0.0), "unit: found 0.0, expected a number > 0"),
        (CellNormaRegressor(n_epochs=0), "n_epochs: found 0, expected an integer >= 1"),
        (
            CellNormaDetector(nu=0.0),
            "nu: found 0 and rho 0 at first: nothing is ever below rho, and nothing is learned",
        ),
    ],
)
def test_parameters_out_of_range(model: Any, said: str) -> None:
    cells, y = rows_of(20)
    with pytest.raises(ValueError, match="found") as refused:
        model.fit(cells, (y > 60).astype(int))
    assert str(refused.value).startswith(said)


def test_rows_and_classes_that_change() -> None:
    cells, y = rows_of(20)
    classifier = CellNormaClassifier()
    with pytest.raises(ValueError, match="classes must be passed in the first call"):
        classifier.partial_fit(cells, y > 60)
    classifier.partial_fit(cells, y > 60, classes=[False, True])
    with pytest.raises(ValueError, match="are not those of the first call"):
        classifier.partial_fit(cells, y > 60, classes=[1, 2])
    with pytest.raises(ValueError, match="cannot follow"):
        CellNormaRegressor().fit(cells, y).predict(np.zeros((2, cells.n_columns)))
    with pytest.raises(ValueError, match="requires y to be passed"):
        CellNormaRegressor().fit(cells, None)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", [CellNormaClassifier, CellNormaDetector, CellNormaRegressor])
def test_new_rows_may_lack_cells_that_all_rows_before_had(kind: Any) -> None:
    """However they are grouped: a row alone has as many cells as each row of its call."""
    rng = np.random.default_rng(0)
    cells = Cells(rng.integers(0, 4, (300, 5)).astype(np.int32), np.arange(6) * 4)
    y = (cells.codes[:, 0] > 1).astype(int)
    fitted = kind().fit(cells.to_csr(), y)
    new = cells.codes[:40].copy()
    new[rng.random(new.shape) < 0.3] = -1
    new[:3] = -1
    rows = Cells(new, cells.offsets).to_csr()
    decide = fitted.predict if kind is CellNormaRegressor else fitted.decision_function
    one_by_one = np.concatenate([decide(rows[i : i + 1]) for i in range(40)])
    np.testing.assert_allclose(decide(rows), one_by_one, rtol=1e-12, atol=1e-12)
    given = kind().fit(cells, y)
    decide = given.predict if kind is CellNormaRegressor else given.decision_function
    np.testing.assert_allclose(decide(Cells(new, cells.offsets)), one_by_one, rtol=1e-9, atol=1e-12)
    labels = {"classes": [0, 1]} if kind is CellNormaClassifier else {}
    more = [kind().partial_fit(cells.to_csr(), y, **labels) for _ in range(2)]
    more[0].partial_fit(rows, y[:40])
    for i in range(0, 40, 8):
        more[1].partial_fit(rows[i : i + 8], y[i : i + 8])
    np.testing.assert_array_equal(more[0].state_.table, more[1].state_.table)


def test_first_rows_that_are_all_alike_have_no_spread_of_rounding() -> None:
    """The standard deviation of equal numbers may be the rounding of their mean, by which no step would go far."""
    cells = Cells(np.zeros((49, 1), dtype=np.int32), np.array([0, 1]))
    model = CellNormaRegressor("huber").partial_fit(cells, np.full(49, 0.1))
    assert model.unit_ == 1.0


def test_steps_suit_the_entries_of_one_hot_rows_as_those_of_dense_rows() -> None:
    """Ones make k(x, x) the number of entries, and errors would grow with the usual steps."""
    cells, y = rows_of()
    ones = cells.to_csr(normalize=False)
    for rows in (ones, ones.toarray()):
        with pytest.raises(ValueError, match=r"^eta: found 0\.5 with the squared loss, expected a number below 0\.22"):
            CellNormaRegressor().fit(rows, y)
    small = 0.1 * ones  # k(x, x) = 0.09
    found = CellNormaRegressor(eta=5.0).fit(small, y)
    assert found.on_cells_
    dense = CellNormaRegressor(eta=5.0).fit(small.toarray(), y)
    np.testing.assert_allclose(found.predict(small), dense.predict(small.toarray()), rtol=1e-9)


@pytest.mark.parametrize("name", ["decreasing", "offset", "average"])
@pytest.mark.parametrize("value", [True, False])
def test_booleans_of_numpy_are_those_of_python(name: str, value: bool) -> None:
    cells, y = rows_of(60)
    found, expected = (
        CellNormaRegressor().set_params(**{name: given}).fit(cells, y).predict(cells)
        for given in (np.bool_(value), value)
    )
    np.testing.assert_array_equal(found, expected)
