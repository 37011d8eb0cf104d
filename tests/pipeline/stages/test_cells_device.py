"""Cells of a run on a device: which one a worker takes, what is checked and told, and that it may be wrong."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jsonschema import Draft202012Validator

from flows.options.batch import BatchOptions
from ikmap.device import Host, find_gpu
from ikmap.partitioners import draw_subsamples, fit_partitions
from pipeline.errors import InputError
from pipeline.record_types import GPUTask
from pipeline.running import device as seam
from pipeline.running.device import (
    GIVEN,
    DeviceMap,
    device_of_worker,
    evidence_of,
    explain_cells,
    record_of,
    usable,
    wants_gpu,
)
from pipeline.stages.cells import cells
from pipeline.stages.partition import partition
from pipeline.storage.fitted import Fitted
from pipeline.storage.lru_cache import PROCESS
from tests import ROOT
from tests.support import report_examples
from tests.support.params_for import params_for
from tests.support.runs import context, store_rows

SCHEMA = json.loads((ROOT / "docs" / "metrics.schema.json").read_text(encoding="utf-8"))


class Pretended(Host):
    """A GPU, as far as a worker can see."""

    name = "pretended"


class Wrong(Pretended):
    """One whose results are off where the code is 0."""

    name = "wrong"

    def get(self, array: Any) -> np.ndarray:
        return np.where(array == 0, 1, array)


class Full(Pretended):
    """One that has no room while it holds other partitionings."""

    refused = 0

    def put(self, array: np.ndarray) -> Any:
        if seam._mappers:
            self.refused += 1
            raise MemoryError
        return array


@pytest.fixture(autouse=True)
def no_partitionings_on_devices() -> None:
    PROCESS.forget()


def test_a_worker_takes_the_gpu_that_it_was_given(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = Pretended()
    words = ("auto", "cpu", "gpu")
    monkeypatch.delenv(GIVEN, raising=False)
    assert [wants_gpu(word) for word in words] == [False, False, True]
    for given in ("0", "3,1", "GPU-8f2a", "MIG-1"):
        monkeypatch.setenv(GIVEN, given)
        assert [wants_gpu(word) for word in words] == [True, False, True]
    for given in ("", "-1", "NoDevFiles"):
        monkeypatch.setenv(GIVEN, given)
        assert not wants_gpu("auto")
        assert device_of_worker("auto") is None
    assert (device_of_worker("cpu"), device_of_worker(gpu)) == (None, gpu)
    assert [usable(word, gpu) for word in ("auto", "gpu")] == [gpu, gpu]
    assert usable("auto", "no luck") is None
    with pytest.raises(InputError, match=r"^--device gpu: \S+: no luck$"):
        usable("gpu", "no luck")


def test_a_worker_looks_for_the_gpu_of_its_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(GIVEN, "0")
    found = find_gpu()
    assert device_of_worker("auto") is (None if isinstance(found, str) else found)


def test_the_option_names_the_devices() -> None:
    spec = BatchOptions.specs()["device"]
    assert getattr(spec.kind, "names", None) == ("auto", "cpu", "gpu")
    assert BatchOptions().device == "auto"


@pytest.fixture
def fitted(tmp_path: Path) -> Any:
    """A run whose partitionings are fitted: its context, and which they are."""
    rng = np.random.default_rng(0)
    X = rng.random((300, 3))
    run = context(tmp_path / "run", params_for(t=6, psi=8, shard_rows=100))
    store_rows(run.store, X, (X[:, 0] > 0.5).astype(int), rule="first", n_train=200)
    return run, [Fitted(**model) for model in partition(run, [8])["fitted"]]


def stored(run: Any) -> list[np.ndarray]:
    return [run.store.open_arrays(f"cells/anne-psi-8/{side}")["codes"][...] for side in ("train", "test")]


def test_a_run_tells_which_gpu_it_used(fitted: Any) -> None:
    run, models = fitted
    assert "gpu" not in cells(replace(run, device="cpu"), models)
    expected = stored(run)
    for record in run.run.task_record("cells", "any").parent.glob("*.json"):
        record.unlink()
    gpu = cells(replace(run, device=Pretended()), models)["gpu"]
    for found, right in zip(stored(run), expected, strict=True):
        np.testing.assert_array_equal(found, right)
    assert gpu["devices"] == [{"name": "pretended"}]
    assert len(gpu["how"]) == 1
    assert (gpu["rows"], gpu["rows_of_processors"], gpu["mismatches"]) == (300, 0, 0)
    assert gpu["cells_checked"] >= 3 * 32 * 6
    metrics = report_examples.binary() | {"gpu": gpu}
    assert list(Draft202012Validator(SCHEMA).iter_errors(json.loads(json.dumps(metrics)))) == []
    metrics["gpu"] = {name: value for name, value in gpu.items() if name != "mismatches"}
    assert list(Draft202012Validator(SCHEMA).iter_errors(json.loads(json.dumps(metrics))))


@pytest.mark.parametrize("method", ["anne", "iforest"])
def test_what_a_gpu_gets_wrong_is_not_stored(method: str) -> None:
    X = np.random.default_rng(1).random((200, 3))
    model = fit_partitions(X, draw_subsamples(200, 6, 8, 0), method=method, seed=0)
    mapping = DeviceMap(model, Wrong())
    assert mapping.device is not None
    assert (mapping.device.name, mapping.mismatches) == ("wrong", 0)
    expected = model.cells(X).codes
    np.testing.assert_array_equal(mapping.codes(X), expected)
    sample = np.unique(np.linspace(0, 199, 32).astype(int))
    assert mapping.mismatches == (expected[sample] == 0).sum() > 0
    assert mapping.checked == 32 * 6
    right = DeviceMap(model, "cpu")
    right.codes(X)
    records: list[GPUTask] = [{**record_of([mapping]), "rows": 200}, {**record_of([right]), "rows": 7}]
    gpu = evidence_of(records)["gpu"]
    assert (gpu["rows"], gpu["rows_of_processors"], gpu["mismatches"]) == (200, 7, mapping.mismatches)
    assert f"{mapping.mismatches} of 192 cells" in seam.warning_of(evidence_of(records))
    assert evidence_of(records[1:]) == {}


def test_few_rows_and_none() -> None:
    X = np.random.default_rng(1).random((50, 3))
    model = fit_partitions(X, draw_subsamples(50, 6, 8, 0), method="anne", seed=0)
    for n in (0, 1, 31):
        mapping = DeviceMap(model, Pretended())
        np.testing.assert_array_equal(mapping.codes(X[:n]), model.cells(X[:n]).codes)
        assert mapping.checked == n * 6


def test_the_plan_says_where(monkeypatch: pytest.MonkeyPatch) -> None:
    X = np.random.default_rng(1).random((50, 3))
    model = fit_partitions(X, draw_subsamples(50, 6, 8, 0), method="anne", seed=0)
    assert explain_cells(model, "cpu") == model.explain()
    (line,) = explain_cells(model, Pretended())
    assert line.startswith("on the GPU, pretended: dense products with ")
    assert "rows at a time" in line
    if isinstance(why := find_gpu(), str):
        monkeypatch.setenv(GIVEN, "0")
        assert explain_cells(model, "auto") == [f"on a processor: {why}", *model.explain()]
    monkeypatch.delenv(GIVEN, raising=False)
    assert explain_cells(model, "auto") == model.explain()


def test_partitionings_stay_on_the_device_until_others_need_its_memory() -> None:
    X = np.random.default_rng(1).random((50, 3))
    models = [fit_partitions(X, draw_subsamples(50, 2, 4, k), method="anne", seed=k) for k in range(6)]
    device = Pretended()
    first = seam.mapper_of(models[0], device)
    assert seam.mapper_of(models[0], device) is first
    for model in models:
        seam.mapper_of(model, device)
    assert len(seam._mappers) == 4
    assert seam.mapper_of(models[0], device) is not first

    full = Full()
    seam.mapper_of(fit_partitions(X, draw_subsamples(50, 2, 4, 9), method="anne", seed=9), full)
    assert (full.refused, len(seam._mappers)) == (1, 1)
