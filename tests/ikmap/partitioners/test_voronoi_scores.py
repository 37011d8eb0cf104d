"""Scores of rows against centres in float32: how far rounding can put them off, and where it cannot."""

from __future__ import annotations

import numpy as np
import pytest

from ikmap.arrays import Floats
from ikmap.partitioners.voronoi._scores_loops import LEAST_ERROR, TILE, score_all
from ikmap.partitioners.voronoi.scores import DenseScores, Queries, SparseScores
from ikmap.rows import as_csr, as_dense
from tests.support.point_sets import DATA, queries_of

KINDS = ["dense", "sparse"]


def scores_of(kind: str, centers: Floats) -> DenseScores | SparseScores:
    return DenseScores(as_dense(centers)) if kind == "dense" else SparseScores(as_csr(centers))


def scored(scores: DenseScores | SparseScores, block: Queries, n_centers: int) -> np.ndarray:
    """The float32 scores, shape (n, n_centers)."""
    tiles, n = scores.tiles(np.arange(n_centers)), block.lengths.size
    out = np.empty((n, tiles.lines.shape[0] * TILE), dtype=np.float32)
    score_all(scores.begun(block, tiles), 0, n, tiles.lines, out)
    return out[:, :n_centers]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", DATA)
def test_scores_are_off_by_no_more_than_is_said(name: str, kind: str) -> None:
    centers, rows = DATA[name], queries_of(DATA[name])
    scores = scores_of(kind, centers)
    block = scores.block(rows)
    known = np.flatnonzero(block.lengths >= 0)
    if not scores.scale:
        assert not known.size
        return
    shift = scores.shift if isinstance(scores, DenseScores) else 0.0
    x, z = (rows[known] - shift) * scores.scale, (centers - shift) * scores.scale
    lengths, reaches = np.sqrt((x * x).sum(axis=1)), np.sqrt((z * z).sum(axis=1))
    np.testing.assert_allclose(block.lengths[known], lengths, rtol=1e-12)
    assert scores.reach == pytest.approx(reaches.max(), rel=1e-12)
    exact = reaches**2 - 2.0 * (x @ z.T)
    off = np.abs(scored(scores, block, len(centers))[known] - exact)
    slack = 1e-14 * (lengths[:, None] + reaches) ** 2 + LEAST_ERROR
    assert (off <= block.units[known, None] * (lengths[:, None] + reaches) ** 2 + slack).all()
    # And little more is said than float32 needs, for rows would be settled by exact distances needlessly.
    assert (block.units <= 2.0 * (centers.shape[1] + 8) * 2.0**-24).all()


@pytest.mark.parametrize("kind", KINDS)
def test_scores_of_whole_numbers_are_exact_up_to_twenty_four_bits(kind: str) -> None:
    rng = np.random.default_rng(0)
    centers = np.r_[rng.integers(-1400, 1400, size=(200, 2)), [[2000, 0]]].astype(float)
    rows = rng.integers(-5000, 5000, size=(500, 2)).astype(float)
    scores = scores_of(kind, centers)
    block = scores.block(rows)
    sure = np.hypot(*rows.T) + np.hypot(*centers.T).max() <= 2.0**12
    assert 50 < sure.sum() < 450
    np.testing.assert_array_equal(block.units == 0.0, sure)
    exact = (centers**2).sum(axis=1) - 2.0 * (rows @ centers.T)
    found = scored(scores, block, len(centers)) / scores.scale**2
    np.testing.assert_array_equal(found[sure], exact[sure])
    assert (scores.block(rows + 0.5).units > 0.0).all()
    assert (scores_of(kind, centers + 0.25).block(rows).units > 0.0).all()


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_known_of_rows_that_are_too_far(kind: str) -> None:
    centers = np.array([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]])
    scores = scores_of(kind, centers)
    rows = np.array([[1.0, 2.0], [2.0**38, 0.0], [2.0**42, 0.0], [1e300, 0.0]])
    block = scores.block(rows)
    assert (block.lengths[:2] > 0).all()
    np.testing.assert_array_equal(block.lengths[2:], -1.0)
    points = scores.points(block)
    assert np.isfinite(points if isinstance(points, np.ndarray) else points.toarray()).all()
    nothing = scores_of(kind, np.zeros((3, 2)))
    np.testing.assert_array_equal(nothing.block(rows).lengths, -1.0)
