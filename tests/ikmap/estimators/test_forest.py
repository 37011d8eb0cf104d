"""ForestMap as a scikit-learn transformer that sees the targets."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline

from ikmap import CellLogisticRegression, CellRidge, ForestMap, IsolationKernelMap
from ikmap.partitioners import draw_subsamples
from ikmap.partitioners.forest import Growth, fit_forest
from ikmap.rows import as_dense

LABELLED = load_breast_cancer(return_X_y=True)
NUMBERS = load_diabetes(return_X_y=True)


def test_cells_are_those_of_the_forest_and_the_one_hot_form_is_theirs() -> None:
    X, y = LABELLED
    forest = ForestMap(7, 200, max_features=0.1, min_leaf=3, random_state=4)
    one_hot = forest.fit_transform(X, y)
    draws = draw_subsamples(len(X), 7, 200, 4)
    used, position = np.unique(draws, return_inverse=True)
    growth = Growth(n_tried=3, min_leaf=3)
    expected = fit_forest(X[used], position.reshape(draws.shape), y[used], 4, criterion="gini", growth=growth).cells(X)
    np.testing.assert_array_equal(forest.cells(X), expected.codes)
    np.testing.assert_array_equal(as_dense(one_hot), expected.to_csr().toarray())
    np.testing.assert_array_equal(forest.cells(sp.csr_matrix(X)), expected.codes)
    assert forest.get_feature_names_out()[0] == "forest0_0"
    assert len(forest.get_feature_names_out()) == one_hot.shape[1]


def test_half_of_few_rows_grow_a_tree_by_default() -> None:
    X, y = LABELLED
    assert ForestMap(2).fit(X, y).max_samples_ == len(X) // 2
    assert ForestMap(2).fit(np.arange(20_000.0)[:, None], np.arange(20_000) % 2).max_samples_ == 4096


def test_words_are_classes_and_fractions_are_numbers() -> None:
    X, y = LABELLED
    words = np.array(["benign", "malignant"])[y]
    np.testing.assert_array_equal(
        ForestMap(3, random_state=0).fit(X, words).cells(X), ForestMap(3, random_state=0).fit(X, y).cells(X)
    )
    X, y = NUMBERS  # whole numbers
    by_class = ForestMap(3, random_state=0).fit(X, y).cells(X)
    by_number = ForestMap(3, random_state=0, task="regression").fit(X, y).cells(X)
    assert (by_class != by_number).any()
    fractions = ForestMap(3, random_state=0).fit(X, y / 3).cells(X)
    np.testing.assert_array_equal(fractions, by_number)


def test_without_targets_it_is_refused() -> None:
    with pytest.raises(ValueError, match="requires y to be passed, but the target y is None"):
        ForestMap().fit(NUMBERS[0])
    with pytest.raises(ValueError, match=r"^task: found 'words'"):
        ForestMap(task="words").fit(*NUMBERS)  # type: ignore[arg-type]


def test_three_classes() -> None:
    X, y = load_iris(return_X_y=True)
    model = make_pipeline(ForestMap(50, random_state=0), CellLogisticRegression(random_state=0))
    assert cross_val_score(model, X, y).mean() > 0.92


def test_cells_that_have_seen_labels_hold_more_of_them_than_blind_ones() -> None:
    """Columns of noise mislead blind trees; scores are on rows that no tree has seen."""
    X, y = NUMBERS
    X = np.c_[X, np.random.default_rng(0).normal(size=(len(X), 40))]
    guided, blind = (
        cross_val_score(make_pipeline(cells, CellRidge(alpha=0.1)), X, y).mean()
        for cells in (
            ForestMap(100, task="regression", random_state=0),
            IsolationKernelMap("iforest", 100, 64, random_state=0),
        )
    )
    assert guided > blind + 0.05


def test_a_forest_that_is_too_large_is_refused_with_names_of_parameters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ikmap.methods.forest.MOST_BYTES", 1000)
    X, y = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match=r"give fewer n_estimators or a smaller max_samples, or map iforest$"):
        ForestMap(5, random_state=0).fit(X, y)
