"""Boosting and stacking in runs whose rows have groups, times or weights: the same bits however rows are held."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flows.options.batch import BatchOptions
from ikmap.divisions import Division
from ikmap.learners.boosting import piece
from ikmap.learners.boosting.piece import Piece
from ikmap.learners.rows import Block
from ikmap.methods import Training
from ikmap.methods.boosting import Boosting
from ikmap.methods.stacking import Stacking
from pipeline.errors import InputError
from pipeline.rows.prepared import PreparedRows
from pipeline.rows.split_rule import SplitRule
from pipeline.storage.models import MODELS, save_model
from pipeline.storage.store import Store
from tests.support.calls import counted, killed_at
from tests.support.one_process import Command, one_process

pytestmark = pytest.mark.slow
N = 500
WORDS = "--label kind --rounds 12 --shrinkage 0.5 --max-leaves 5 --min-leaf 4 --held-out 0.2 --drop who,when"


@pytest.fixture(autouse=True)
def _one_process(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(piece, "SUM_ROWS", 32)
    with one_process():
        yield


@pytest.fixture
def table(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    group = rng.integers(0, 30, N)
    a, b = rng.normal(size=30)[group] + rng.normal(size=N) / 9, rng.normal(size=N)
    kind = np.where(rng.normal(size=30)[group] + b > 0, "yes", "no")
    weight, time = rng.integers(0, 4, N) / 2, rng.permutation(N)
    lines = [f"{a[k]:.3f},{b[k]:.3f},g{group[k]},{time[k]},{weight[k]},{kind[k]}" for k in range(N)]
    path = tmp_path / "rows.csv"
    path.write_text("\n".join(["a,b,who,when,w,kind", *lines]) + "\n")
    return path


def run(table: Path, directory: Path, words: str) -> tuple[dict[str, Any], PreparedRows]:
    options = BatchOptions.parse(["--input", str(table), *WORDS.split(), *words.split()])
    metrics = Command(options).run(directory)
    return metrics["learners"], PreparedRows(Store(directory / "store.zarr"), "train")


def training_of(rows: PreparedRows, rule: str) -> Training:
    block, keys = rows.read(0, rows.n_rows), None
    if rule:
        keys = Division(rows.keys(SplitRule.parse(rule), np.arange(rows.n_rows)), rule.startswith("time"))
    return Training(Block(block.rows, block.y, block.sample_weight), ["no", "yes"], 0, division=keys)


@pytest.mark.parametrize("rule", ["group:who", "time:when", ""])
@pytest.mark.parametrize("weight", ["--weight w", "--drop who,when,w"], ids=["weighted", "not weighted"])
def test_boosting_has_the_same_bits_however_rows_are_held(table: Path, tmp_path: Path, rule: str, weight: str) -> None:
    words, hashes = f"--learner boosting {weight} {f'--split-by {rule}' if rule else ''}", set()
    learner = Boosting(rounds=12, shrinkage=0.5, max_leaves=5, min_leaf=4, held_out=0.2)
    for solver in ("memory", "block", "distributed"):
        with counted(Piece._take_sides, note=lambda given: given["self"]) as pieces:
            metrics, rows = run(table, tmp_path / solver, f"{words} --solver {solver}")
        hashes.add(metrics["boosting"]["content_hash"])
        keys = rows.keys(SplitRule.parse(rule), np.arange(rows.n_rows)) if rule else np.zeros(0)
        for some in pieces.notes if rule else []:
            own = keys[some._rows.start : some._rows.stop]
            kept, held = own[some._kept], own[some._held]
            assert not set(kept) & set(held)
            assert rule.startswith("group") or not held.size or kept.max(initial=-1) < held.min()
    hashes.add(learner.fit(training_of(rows, rule))[0].content_hash)
    assert len(hashes) == 1


@pytest.mark.parametrize("rule", ["group:who", "time:when"])
def test_stacking_divides_and_weighs_rows_as_the_run_does(table: Path, tmp_path: Path, rule: str) -> None:
    words = f"--learner stacking --t 10 --psi 32 --n-folds 4 --weight w --split-by {rule}"
    metrics, rows = run(table, tmp_path / "run", words)
    learner = Stacking(rounds=12, shrinkage=0.5, max_leaves=5, min_leaf=4, held_out=0.2, t=10, psi=32, n_folds=4)
    training = training_of(rows, rule)
    assert training.block.sample_weight is not None
    model, summary = learner.fit(training)
    assert metrics["stacking"]["content_hash"] == model.content_hash
    assert metrics["stacking"]["base_models"] == summary["base_models"]


@pytest.mark.parametrize("kill", [0, 1, 2, 5])
def test_a_task_learns_each_model_of_a_sum_with_weights(table: Path, tmp_path: Path, kill: int) -> None:
    """It is killed in the middle of a model, or as the models are added up, and goes on with those that it has."""
    base_models = "boosting@0.5,iforest:16:2@0.7"
    words = f"--learner stacking --t 10 --base-models {base_models} --refits 2 --weight w"
    if kill:
        with killed_at(save_model, kill):
            run(table, tmp_path / "run", words)
    with counted(Stacking.learn, note=lambda given: given["k"]) as learned:
        metrics, rows = run(table, tmp_path / "run", words)
    assert list(learned.notes) == list(range(max(0, kill - 1), 4))
    options = {"rounds": 12, "shrinkage": 0.5, "max_leaves": 5, "min_leaf": 4, "held_out": 0.2, "t": 10}
    model, summary = Stacking(base_models=base_models, refits=2, **options).fit(training_of(rows, ""))  # type: ignore[arg-type]
    assert metrics["stacking"]["content_hash"] == model.content_hash
    assert metrics["stacking"]["base_models"] == summary["base_models"]
    store = Store(tmp_path / "run" / "store.zarr")
    assert store.attributes(f"{MODELS}/stacking-parts/000") is None
    assert store.attributes(f"{MODELS}/stacking") is not None
    # A model that is lost is made again, with those that it was made of.
    store.delete(f"{MODELS}/stacking")
    again, _ = run(table, tmp_path / "run", words)
    assert again["stacking"]["content_hash"] == model.content_hash
    assert store.attributes(f"{MODELS}/stacking") is not None


def test_one_group_is_too_few_for_boosting_in_a_sum_with_weights(table: Path, tmp_path: Path) -> None:
    head, *lines = table.read_text().splitlines()
    rows = [line.split(",") for line in lines]
    two = [",".join([a, b, f"g{k % 2}", *rest]) for k, (a, b, _, *rest) in enumerate(rows)]
    table.write_text("\n".join([head, *two]) + "\n")
    words = "--learner stacking --t 10 --base-models boosting@0.5,iforest:16:2@0.7 --split-by group:who"
    message = r"^--learner stacking, --split-by group:who: found the same group in all \d+ rows"
    with pytest.raises(InputError, match=message):
        run(table, tmp_path / "run", words)


def test_psi_and_C_of_a_sum_with_weights_may_be_left_to_it(table: Path, tmp_path: Path) -> None:
    with counted(Stacking.joined) as joined:
        metrics, rows = run(table, tmp_path / "run", "--learner stacking --t 10 --base-models boosting@0.5,iforest@0.7")
    assert joined.number == 1
    chosen = metrics["stacking"]["base_models"]["iforest"]
    options = {"rounds": 12, "shrinkage": 0.5, "max_leaves": 5, "min_leaf": 4, "held_out": 0.2, "t": 10}
    given = f"boosting@0.5,iforest:{chosen['psi']}:{chosen['C']}@0.7"
    model = Stacking(base_models=given, **options).fit(training_of(rows, ""))[0]  # type: ignore[arg-type]
    assert metrics["stacking"]["content_hash"] == model.content_hash


def test_a_quantile_takes_no_weights(table: Path, tmp_path: Path) -> None:
    words = "--learner boosting --weight w --label b --task regression --quantile-level 0.9 --drop who,when,kind"
    with pytest.raises(InputError, match="--weight w: found --learner boosting, which counts every row once"):
        run(table, tmp_path / "run", words)


@pytest.mark.parametrize("learner", ["boosting", "stacking --t 5 --psi 8"])
def test_rows_of_one_group_are_refused(tmp_path: Path, learner: str) -> None:
    """The test rows are one of two groups, so that one is left to learn from."""
    table = tmp_path / "two.csv"
    lines = [f"{k * 37 % 100},{'p' if k < 70 else 'q'},{'yes' if k % 2 else 'no'}" for k in range(100)]
    table.write_text("\n".join(["a,who,kind", *lines]) + "\n")
    options = f"--input {table} --label kind --split-by group:who --drop who --rounds 3 --learner {learner}"
    with pytest.raises(InputError, match=r"--split-by group:who: found (the same group|1 different groups)"):
        Command(BatchOptions.parse(options.split())).run(tmp_path / "run")
