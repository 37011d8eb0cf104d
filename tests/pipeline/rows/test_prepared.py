"""Prepared rows against the same rows in memory: any split, any parts, dense and sparse."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from ikmap.learners.rows import Block
from ikmap.rows import as_dense
from ikmap.tasks import CLASSIFICATION, plain_label
from ikmap.tasks.classification.codec import ClassCodec
from pipeline.errors import Damaged, InputError
from pipeline.rows import prepared, split
from pipeline.rows.parts import read_part
from pipeline.rows.permutation import position_in_shuffle
from pipeline.rows.preparation import Preparation
from pipeline.rows.prepared import PreparedRows, refuse_unseen_labels
from pipeline.rows.split import Split
from pipeline.running.stage import Stage
from pipeline.stages.scale import fit_scaling
from pipeline.storage.arrays import read
from tests.naive.permutation import position
from tests.support.calls import counted
from tests.support.runs import context, new_store, points, sparse, store_rows

pytestmark = pytest.mark.slow

N = 120


def expected_rows(rule: str, n_train: int, seed: int, side: str) -> np.ndarray:
    rows = np.arange(N)
    if rule == "all":
        return rows
    place = rows if rule == "first" else position_in_shuffle(rows, N, seed)
    return rows[(place < n_train) == (side == "train")]


def as_array(X: Any) -> np.ndarray:
    return X.toarray() if sp.issparse(X) else X


CASES = [
    *product(("all", "first"), ("dense", "sparse"), (13,), ("train", "test")),
    *product(("shuffle",), ("dense", "sparse", "sparse to dense"), (13,), ("train", "test")),
    *product(("shuffle",), ("sparse to dense",), (1000,), ("train", "test")),
    ("shuffle", "sparse", 3, "test"),  # many parts without a row of this side, or with one
]


@pytest.mark.parametrize(("rule", "kind", "part_rows", "side"), CASES)
def test_rows_are_those_of_the_file(
    rule: str, kind: str, part_rows: int, side: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, y = points(N, d=6, classes=3)
    stored = X if kind == "dense" else sparse(X)
    store = new_store(tmp_path)
    store_rows(store, stored, y, rule=rule, n_train=96, part_rows=part_rows, seed=4, dense=kind != "sparse")
    rows = PreparedRows(store, side)
    wanted = expected_rows(rule, 96, 4, side)
    whole, classes = as_array(stored)[wanted], y[wanted].astype(np.int32)
    assert rows.n_rows == wanted.size

    def same(found: Block, numbers: Any) -> None:
        assert sp.issparse(found[0]) == (kind == "sparse")
        assert np.array_equal(as_array(found[0]), whole[numbers])
        assert found[1].dtype == np.int32
        assert np.array_equal(found[1], classes[numbers])
        assert np.array_equal(found.row_id, np.arange(rows.n_rows)[numbers])  # type: ignore[arg-type]

    same(rows.read(0, rows.n_rows), slice(None))
    for start, stop in [(0, 1), (3, 17), (rows.n_rows - 1, rows.n_rows), (5, 5)]:
        same(rows.read(start, stop), slice(start, stop))
    some = np.flatnonzero(np.random.default_rng(0).random(rows.n_rows) < 0.2)
    for numbers in (some, some[:1], some[:0], np.array([0, rows.n_rows - 1])):
        same(rows.take(numbers), numbers)
    with counted(read_part) as whole_rows:
        targets, weights = rows.targets_of(some)
    assert np.array_equal(targets, classes[some])
    assert targets.dtype == np.int32
    assert weights is None
    assert whole_rows.number == 0
    monkeypatch.setattr(prepared, "READ_BYTES", 8 * 6 * 11)
    at = 2
    for first, block in rows.blocks(2, rows.n_rows - 1):
        assert first == at
        assert 0 < block.y.size <= 11
        same(block, slice(at, at + block.y.size))
        at += block.y.size
    assert at == rows.n_rows - 1


def test_parts_without_rows(tmp_path: Path) -> None:
    """A shuffle may leave a part without test rows, and a piece of a file may have none at all."""
    X, y = points(N)
    store = new_store(tmp_path)
    store_rows(store, X, y, rule="shuffle", n_train=N - 2, part_rows=10)
    wanted = expected_rows("shuffle", N - 2, 0, "test")
    found = PreparedRows(store, "test").read(0, 2).rows
    assert isinstance(found, np.ndarray)
    assert np.array_equal(found, X[wanted])
    attributes = store.attributes("data")
    assert attributes is not None
    side = attributes["sides"]["train"]
    side["parts"].insert(3, {"name": "data/train/none", "rows": 0})
    side["counts"].insert(3, 0)
    store.set_attributes("data", attributes)
    found = PreparedRows(store, "train").read(0, N - 2).rows
    assert isinstance(found, np.ndarray)
    assert np.array_equal(found, X[expected_rows("shuffle", N - 2, 0, "train")])


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
def test_a_part_is_read_once_and_again_when_it_is_another(make: Callable[[Any], Any], tmp_path: Path) -> None:
    store, (X, y) = new_store(tmp_path), points(30)
    store_rows(store, make(X), y, part_rows=10)
    rows = PreparedRows(store, "train")
    with counted(read, note=lambda of: of["array"].name) as reads:
        for start in range(30):  # neighbours, as tasks ask for them
            found = rows.read(start, start + 1).rows
            assert np.array_equal(as_dense(found), X[start : start + 1])
    assert 0 < reads.number == len(set(reads.notes))
    store_rows(store, make(X + 1), y, part_rows=10)
    assert np.array_equal(as_dense(rows.read(25, 30)[0]), X[25:] + 1)


def test_training_and_test_rows_share_none_and_leave_none_out() -> None:
    for rule in ("first", "shuffle"):
        for n, n_train in [(2, 1), (10, 9), (1000, 333)]:
            sides = [Split(rule, n, n_train, train, 5).of_part(0, n) for train in (True, False)]
            assert sides[0].size == n_train
            assert np.array_equal(np.sort(np.concatenate(sides)), np.arange(n))


@pytest.mark.parametrize(("n", "n_train"), [(1, 0), (1, 1), (10, 9), (1000, 333), (1000, 800), (4097, 4097)])
def test_rows_shuffled_together_are_on_the_sides_that_each_is_on_by_itself(
    n: int, n_train: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = [(0, n // 3), (n // 3, n - n // 3)]
    together = [Split("shuffle", n, n_train, train, 5).of_part(*part) for train in (True, False) for part in parts]
    monkeypatch.setattr(split, "SHUFFLED_TOGETHER", 0)
    split._of_part.cache_clear()
    for k, (train, (first, rows)) in enumerate(product((True, False), parts)):
        chosen = Split("shuffle", n, n_train, train, 5)
        places = [position(row, n, 5) for row in range(first, first + rows)]
        expected = [row for row, place in enumerate(places) if (place < n_train) == train]
        assert together[k].tolist() == chosen.of_part(first, rows).tolist() == expected
        assert chosen.count(first, rows) == len(expected)


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
def test_divide(make: Callable[[Any], Any], tmp_path: Path) -> None:
    X, y = points(N)
    store = new_store(tmp_path)
    store_rows(store, make(X * 255), y, divide=255.0)
    found = PreparedRows(store, "train").read(0, N).rows
    assert np.array_equal(as_array(found), X * 255 / 255.0)


def test_two_classes_of_many(tmp_path: Path) -> None:
    X, y = points(N, classes=4)
    store = new_store(tmp_path)
    store_rows(store, X, y, two_class=[[0, 3], [1, 2]])
    found = PreparedRows(store, "train").read(0, N).y
    assert np.array_equal(found, np.isin(y, [0, 3]).astype(np.int32))


def test_labels_of_any_kind(tmp_path: Path) -> None:
    X, _ = points(6)
    for k, (labels, classes) in enumerate(
        [
            (np.array(["b", "a", "b", "c", "a", "a"], dtype=object), [1, 0, 1, 2, 0, 0]),
            (np.array([3.0, -1.0, 3.0, 7.0, -1.0, -1.0]), [1, 0, 1, 2, 0, 0]),
            (np.array([0.5, 0.25, 0.5, 2.0, 0.25, 0.25]), [1, 0, 1, 2, 0, 0]),
        ]
    ):
        store = new_store(tmp_path / str(k))
        store_rows(store, X, labels, part_rows=2)
        assert PreparedRows(store, "train").read(0, 6)[1].tolist() == classes


@pytest.mark.parametrize(
    ("found", "plain"), [(3.0, 3), (-1.0, -1), (0.5, 0.5), ("3", "3"), (np.float64(2), 2), (np.int64(4), 4)]
)
def test_plain_labels(found: Any, plain: Any) -> None:
    assert plain_label(found) == plain
    assert type(plain_label(found)) is type(plain)


def test_minmax_knows_training_rows_only_and_clips_test_rows(tmp_path: Path) -> None:
    X, y = points(N)
    X[:, 1] = 4.0  # constant: no width to divide by
    X[:96, 0] = np.clip(X[:96, 0], 0.25, 0.75)
    X[110:113, 0] = [-5.0, 0.5, 5.0]
    ctx = context(tmp_path)
    store_rows(ctx.store, X, y, rule="first", n_train=96)
    attributes = ctx.store.attributes("data")
    assert attributes is not None
    fit_scaling(Stage(ctx, "ingest", None), Preparation.from_json(attributes["preparation"]))
    attributes["preparation"]["scale"] = "minmax"
    ctx.store.set_attributes("data", attributes)
    low, high = X[:96].min(axis=0), X[:96].max(axis=0)
    width = np.where(high > low, high - low, 1.0)
    for side, rows in (("train", slice(0, 96)), ("test", slice(96, N))):
        found = PreparedRows(ctx.store, side).read(0, len(X[rows])).rows
        assert isinstance(found, np.ndarray)
        assert np.array_equal(found, np.clip((X[rows] - low) / width, 0, 1))
        if side == "train":
            assert found[:, [0, 2, 3]].min() == 0.0
            assert found[:, [0, 2, 3]].max() == 1.0
        else:
            assert found[14:17, 0].tolist() == [0.0, 0.5, 1.0]
        assert (found[:, 1] == 0).all()


def test_minmax_does_not_fill_sparse_data(tmp_path: Path) -> None:
    ctx = context(tmp_path)
    with pytest.raises(InputError, match="found sparse data, which it would fill"):
        fit_scaling(Stage(ctx, "ingest", None), Preparation(3, None, False, CLASSIFICATION.of([0, 1])))


def test_nothing_ingested(tmp_path: Path) -> None:
    with pytest.raises(Damaged, match="found no complete group"):
        PreparedRows(new_store(tmp_path), "train")


def test_labels_without_a_class() -> None:
    classes = CLASSIFICATION.of(["a", "b"])

    def found(*labels: Any) -> list[dict[str, Any]]:
        return [{"labels": list(labels), "label_counts": [1] * len(labels)}]

    refuse_unseen_labels(found("b", "a"), classes, "file")
    with pytest.raises(InputError, match=r"file: found label 3, 'x', expected the training labels: 'a', 'b'$"):
        refuse_unseen_labels(found("x", "a", 3), classes, "file")
    with pytest.raises(InputError, match=r"found label 0, 1, 2, 3, 4, \.\.\., expected"):
        refuse_unseen_labels(found(*range(9)), classes, "file")
    two = CLASSIFICATION.of([-1, 1], [["x"], ["y"]])
    assert isinstance(two.codec, ClassCodec)
    assert [two.codec.class_of(label) for label in ("x", "y", -1)] == [1, 0, None]
