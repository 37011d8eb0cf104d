"""Scores of novelty on cells are those of the definitions, whatever the rows are cut into."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from ikmap.cells import Cells
from ikmap.learners.novelty.depths import average_path_length
from ikmap.learners.novelty.fading import BINS, FadingMasses
from ikmap.learners.rows import Block
from ikmap.methods import MAPS, CellTables, CountsLearner, Sample, Training, capability
from ikmap.methods.idk import IDK
from ikmap.methods.iforest import IForest
from ikmap.methods.iforest_score import IForestScore
from ikmap.partitioners import draw_subsamples, fit_iforest, fit_spheres
from ikmap.tasks import NOVELTY
from tests.naive.novelty import path_length, similarities, sphere, unsuccessful_search

RNG = np.random.default_rng(11)
X = np.round(RNG.normal(size=(80, 3)), 1)  # with duplicates among the values
X[40:44] = X[40]
NEW = np.round(2 * RNG.normal(size=(30, 3)), 1)


def test_before_the_first_row_none_is_novel() -> None:
    """Scores lie in [0, 1], and so does the threshold."""
    state = FadingMasses.start(np.array([0, 3, 6]), 0.1, None, "idk")
    assert state.threshold == 1.0
    assert state.n_support == state.n_seen == 0


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("psi", [1, 7])
def test_cells_of_spheres(form: Any, psi: int) -> None:
    draws = draw_subsamples(len(X), 6, psi, 2)
    codes = fit_spheres(form(X), draws).cells(form(NEW)).codes
    for i in range(6):
        # Points that are alike have one number, that of the first.
        points = X[draws[i]]
        expected = [sphere(row, points) for row in NEW]
        assert codes[:, i].tolist() == expected
    assert psi == 1 or -1 in codes


@pytest.mark.parametrize("name", ["anne", "inne", "iforest"])
def test_idk_is_the_mean_of_the_kernel(name: str) -> None:
    of_map, _ = MAPS[name].of_record({"t": 9, "psi": 8})
    fitted = of_map.fit(Sample(len(X), 3, None, X.__getitem__, 4), 1)
    cells, new = fitted.cells(X), fitted.cells(NEW)
    model, facts = train(IDK(), cells)
    expected = similarities(cells.codes, new.codes)
    assert np.allclose(1.0 - model.score(new.packed()), expected, rtol=1e-13, atol=1e-15)
    # By the threshold, about that share of the training rows is novel: of each by the other rows.
    others = (expected_of_own(cells) * len(X)) / (len(X) - 1)
    above = (1.0 - others > facts["threshold"]).mean()
    assert above == facts["alert_rate_train"] <= 0.05


def expected_of_own(cells: Cells) -> np.ndarray:
    """Similarity of each training row to the others, as a share of all rows."""
    own = (cells.codes >= 0).mean(axis=1) / len(X)
    found: np.ndarray = similarities(cells.codes, cells.codes) - own
    return found


@pytest.mark.parametrize("max_depth", ["none", "log2"])
def test_the_score_of_the_isolation_forest(max_depth: str) -> None:
    of_map, _ = IForest.of_record({"t": 5, "psi": 16, "max_depth": max_depth})
    sample = Sample(len(X), 3, None, X.__getitem__, 4)
    fitted = of_map.fit(sample, 1)
    model, _ = train(IForestScore(), fitted.cells(X), of_map.cell_tables(fitted, sample))
    draws = draw_subsamples(len(X), 5, 16, 4)
    again = fit_iforest(X, draws, 4, max_depth=None if max_depth == "none" else max_depth)
    expected = np.zeros(len(NEW))
    for i, points in enumerate(draws):
        own = slice(again.roots[i], again.roots[i + 1])
        tree = (again.feature[own], again.threshold[own], again.right[own])
        expected += [path_length(row, X[points], tree) / 5 for row in NEW]
    found = model.score(fitted.cells(NEW).packed())
    assert np.allclose(found, 2.0 ** (-expected / unsuccessful_search(16)), rtol=1e-12)


def test_average_path_lengths() -> None:
    assert np.allclose(average_path_length(np.arange(60)), [unsuccessful_search(m) for m in range(60)], rtol=1e-14)


def train(learner: CountsLearner, cells: Cells, tables: Any = None) -> Any:
    y = np.full(cells.n_rows, -1, dtype=np.int32)
    return learner.fit(Training(Block(cells.packed(), y), [], 4, task=NOVELTY.of(), tables=tables or {}))


@pytest.mark.parametrize("learner", [IDK(), IForestScore()], ids=lambda learner: learner.about.name)
def test_counts_of_pieces_make_the_same_model(learner: CountsLearner) -> None:
    of_map, _ = MAPS[learner.about.usual_map].of_record({"t": 6, "psi": 8})
    sample = Sample(len(X), 3, None, X.__getitem__, 4)
    fitted = of_map.fit(sample, 1)
    knows = capability(of_map, CellTables)
    cells, tables = fitted.cells(X).packed(), knows.cell_tables(fitted, sample) if knows else {}
    sample = Sample(len(X), 6, NOVELTY.of(), cells.__getitem__, 4, cells.offsets, tables)
    whole, _ = train(learner, cells, tables)
    for cuts in ([30], [1, 2, 79]):
        ends, counts = [0, *cuts, len(X)], dict[str, Any]()
        for again in (False, True):
            parts = []
            for start, stop in pairwise(ends):
                block = Block(cells[start:stop], np.full(stop - start, -1, dtype=np.int32))
                parts.append(learner.count_again(block, sample, counts) if again else learner.count(block, sample))
            merged = parts[0]
            for part in parts[1:]:
                merged = learner.merge(merged, part)
            counts = {**counts, **merged}
        assert learner.finish(counts, sample)[0].content_hash == whole.content_hash


def naive_stream(codes: np.ndarray, rate: float, half_life: float | None) -> tuple[list[int], np.ndarray]:
    """Predictions and masses of a stream, all weights made anew for each row."""
    predicted = []
    t = codes.shape[1]
    scored: list[float] = []
    for i, row in enumerate(codes):
        ages = np.arange(i, 0, -1)
        weights = np.ones(i) if half_life is None else 0.5 ** (ages / half_life)
        same = ((codes[:i] == row) & (row >= 0)).mean(axis=1) if i else np.zeros(0)
        if not i:
            predicted.append(0)
            continue
        score = 1.0 - float((weights * same).sum() / weights.sum())
        # Of the rows before, all but the first have a score.
        bins, of = np.floor(np.array(scored) * BINS).astype(int), weights[1:]
        edge = BINS - 1
        if scored:
            # What lies above an edge changes only at a bin that has a score.
            edge = next(b for b in sorted({0, *bins.tolist()}) if of[bins > b].sum() <= rate * of.sum() * (1 + 1e-12))
        predicted.append(int(score > (edge + 1) / BINS))
        scored.append(min(score, np.nextafter(1.0, 0.0)))
    weights = np.ones(len(codes)) if half_life is None else 0.5 ** (np.arange(len(codes), 0, -1) / half_life)
    masses = np.zeros((t, codes.max() + 1))
    for row, weight in zip(codes, weights, strict=True):
        for j, code in enumerate(row):
            if code >= 0:
                masses[j, code] += weight
    return predicted, masses / weights.sum()


@pytest.mark.parametrize("half_life", [None, 10.0, 0.05])
def test_a_stream_fades_as_it_says(half_life: float | None) -> None:
    """With a very short half-life, weights are brought back into range many times."""
    rng = np.random.default_rng(8)
    codes = rng.integers(-1, 4, size=(300, 3)).astype(np.int32)
    codes[200:] = codes[200:] // 3
    offsets = np.arange(4, dtype=np.int64) * 4
    state = FadingMasses.start(offsets, 0.2, half_life, "idk")
    found = state.partial_fit(Cells(codes, offsets).packed(), np.full(300, -1)).predicted
    predicted, masses = naive_stream(codes, 0.2, half_life)
    model = state.model([], {"half_life": half_life})
    assert model.params == {"half_life": half_life}
    assert state.model([]).params == {}
    assert np.allclose(model.table.reshape(3, 4) * 3 / model.divisor, masses, rtol=1e-9, atol=1e-12)
    if half_life != 0.05:  # there, scores are 0 or 1 but for rounding
        assert np.mean(found != predicted) <= 0.01
    if half_life is None:
        assert found.tolist() == predicted
        assert model.table.sum() == (codes >= 0).sum()


def test_the_threshold_of_a_stream_is_the_quantile_of_all_scores_so_far() -> None:
    """After each row: the lowest edge of a bin above which no more than the wanted share of the scores lies."""
    codes = np.random.default_rng(3).integers(0, 3, size=(80, 5)).astype(np.int32)
    offsets = np.arange(6, dtype=np.int64) * 3
    state = FadingMasses.start(offsets, 0.25, None, "idk")
    scored: list[int] = []
    for i in range(80):
        state.partial_fit(Cells(codes[i : i + 1], offsets).packed(), np.full(1, -1))
        if i:
            same = int((codes[:i] == codes[i]).sum())
            scored.append(min(int((1.0 - same / (5 * i)) * BINS), BINS - 1))
            above = [sum(bin_of > edge for bin_of in scored) for edge in sorted({0, *scored})]
            edge = next(e for e, n in zip(sorted({0, *scored}), above, strict=True) if n <= 0.25 * len(scored))
            assert state.threshold == (edge + 1) / BINS
