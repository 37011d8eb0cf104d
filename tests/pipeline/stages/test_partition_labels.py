"""Labels that maps are given: none, or those of the fitted rows where cells depend on labels."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from ikmap.methods import Sample
from ikmap.methods.anne import Anne
from ikmap.methods.forest import Forest
from ikmap.tasks import NOVELTY
from pipeline.errors import DoesNotFit, InputError
from pipeline.stages.partition import partition
from pipeline.stages.select import select
from pipeline.stages.task import refuse_unsuited
from tests.support.calls import counted
from tests.support.params_for import params_for
from tests.support.runs import context, points, store_rows

ROWS = 300


@pytest.fixture
def samples() -> Iterator[list[Sample]]:
    """The samples that forests are fitted on, in order."""
    with counted(Forest.fit, note=lambda of: of["sample"]) as fits:
        yield fits.notes


def test_trees_grow_by_labels_of_training_rows(tmp_path: Path, samples: list[Sample]) -> None:
    run = context(tmp_path, params_for(partitioner="forest", t=3, psi=50, learners=("svm",), C=1.0))
    X, y = points(ROWS, classes=3)
    store_rows(run.store, X, y, part_rows=100)
    partition(run, [50])
    (sample,) = samples
    assert sample.targets is not None
    assert sample.n_classes == 3
    numbers = np.arange(0, ROWS, 7)
    rows, targets = sample.take(numbers), sample.targets(numbers)
    labels = {row.tobytes(): label for row, label in zip(np.asarray(X, dtype=np.float64), y, strict=True)}
    assert sample.task is not None
    classes = sample.task.codec.classes
    assert [classes[k] for k in targets] == [labels[row.tobytes()] for row in np.asarray(rows)]


def test_rows_that_are_held_out_grow_no_tree(tmp_path: Path, samples: list[Sample]) -> None:
    run = context(tmp_path, params_for(partitioner="forest", t=3, learners=("svm",), C=1.0))
    store_rows(run.store, *points(ROWS, classes=2), part_rows=100)
    select(run)
    assert samples
    for sample in samples:
        assert sample.n_rows == ROWS * 4 // 5
        assert sample.targets is not None
        assert sample.targets(np.arange(sample.n_rows)).size == sample.n_rows


def test_a_forest_that_is_too_large_is_refused_with_names_of_options(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ikmap.methods.forest.MOST_BYTES", 1000)
    run = context(tmp_path, params_for(partitioner="forest", t=3, learners=("svm",), C=1.0))
    store_rows(run.store, *points(ROWS, classes=2), part_rows=100)
    message = r"^--partitioner forest: .* give fewer --t or a smaller --psi, or --partitioner iforest$"
    with pytest.raises(DoesNotFit, match=message):
        select(run)
    with pytest.raises(DoesNotFit, match=message):
        partition(run, [50])


def test_other_maps_see_no_labels(tmp_path: Path) -> None:
    run = context(tmp_path, params_for(partitioner="anne", t=3, learners=("svm",), C=1.0))
    store_rows(run.store, *points(ROWS, classes=2), part_rows=100)
    with counted(Anne.fit, note=lambda of: (of["sample"].task, of["sample"].targets)) as fits:
        select(run)
        partition(run, [4])
    assert fits.number
    assert fits.notes == [(None, None)] * fits.number


@pytest.mark.parametrize("partitioner", ["forest", "iforest,forest"])
def test_novelty_has_no_labels_to_grow_trees_by(partitioner: str) -> None:
    params = params_for(partitioner=partitioner, t=4, psi=(4, 4) if "," in partitioner else 4, learners=("idk",))
    with pytest.raises(InputError, match=f"^--partitioner {partitioner}: found task novelty .*, which has no labels"):
        refuse_unsuited(params, NOVELTY, "--task novelty")
