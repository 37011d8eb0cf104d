"""Choose on which device, GPU or processor, a worker maps rows to cells, and record which it was.

A worker uses a GPU that it was given, one worker for each. What comes back is compared with the processor's cells on a
sample of every block; the counts go into the run's records.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ikmap.device import Device, find_gpu
from ikmap.partitioners import Partitions
from ikmap.partitioners.mapper import Mapper
from ikmap.rows import Rows
from pipeline.errors import InputError
from pipeline.record_types import Record
from pipeline.running.foreign import checked
from pipeline.storage.lru_cache import PROCESS, LRUCache
from pipeline.storage.models import CACHED_MODELS

DEVICES = ("auto", "cpu", "gpu")
GIVEN = "CUDA_VISIBLE_DEVICES"
"""Set by whoever gives a process a GPU: dask-cuda for each of its workers, Slurm for each of its jobs."""
CHECKED_ROWS = 32
"""Rows of a block, evenly spaced, whose cells the processor finds too."""

_mappers: LRUCache[tuple[str, str], Mapper] = PROCESS.keeps(CACHED_MODELS)
"""By content hash of the partitionings and name of the device."""


def device_of_worker(asked: str) -> Device | None:
    """The GPU that this process is to use; None for the processor.

    Parameters
    ----------
    asked : {"auto", "cpu", "gpu"}
        "auto": a GPU if this process was given one. On a machine that merely has one, all its workers would share it.

    Raises
    ------
    InputError
        If a GPU is asked for and there is none.
    """
    if asked == "cpu" or (asked == "auto" and not gpu_is_given()):
        return None
    found = find_gpu()
    if not isinstance(found, str):
        return found
    if asked == "gpu":
        raise InputError(f"--device gpu: {os.uname().nodename}: {found}")
    return None


def gpu_is_given() -> bool:
    """Whether somebody gave this process a GPU."""
    given = os.environ.get(GIVEN, "").split(",")[0].strip()
    return given.isdigit() or given.startswith(("GPU-", "MIG-"))


def mapper_of(model: Partitions, device: Device) -> Mapper:
    """The partitionings on the device, where the last ones stay."""
    key = (model.content_hash, device.name)
    with _mappers.lock:
        mapper = _mappers.get(key)
        if mapper is None:
            _mappers.make_room()
            try:
                mapper = model.mapper(device)
            except MemoryError:  # others may be in the way
                _mappers.forget()
                mapper = model.mapper(device)
            _mappers.put(key, mapper)
        return mapper


@dataclass
class DeviceMap:
    """Maps blocks of rows as asked, and counts.

    Parameters
    ----------
    model : Partitions
    asked : {"auto", "cpu", "gpu"}
    """

    model: Partitions
    asked: str = "auto"
    checked: int = 0
    mismatches: int = 0

    def __post_init__(self) -> None:
        self.device = device_of_worker(self.asked)

    def codes(self, X: Rows) -> np.ndarray:
        """Cells of rows: int32, shape (n, t)."""
        if self.device is None:
            return checked(self.model, self.model.cells(X, n_threads=1).codes)
        codes = mapper_of(self.model, self.device).cells(X).codes
        n = X.shape[0]
        sample = np.unique(np.linspace(0, n - 1, min(n, CHECKED_ROWS)).astype(np.int64))
        expected = self.model.cells(X[sample], n_threads=1).codes
        self.checked += expected.size
        different = int(np.count_nonzero(codes[sample] != expected))
        if different:
            self.mismatches += different
            return self.model.cells(X, n_threads=1).codes  # what is stored is right in any case
        return codes


def record_of(maps: Sequence[DeviceMap]) -> Record:
    """What a task's record tells of the GPU it used; nothing of the processor."""
    used = [found for found in maps if found.device is not None]
    if not used:
        return {}
    device = used[0].device
    assert device is not None
    record = {
        "device": device.evidence(),
        "how": sorted({mapper_of(found.model, device).why for found in used}),
        "cells_checked": sum(found.checked for found in used),
        "mismatches": sum(found.mismatches for found in used),
    }
    return {"gpu": record}


def evidence_of(records: Sequence[Record]) -> Record:
    """The ``gpu`` entry of ``metrics.json``, from the records of tasks that map rows; none where none used a GPU."""
    used = [record for record in records if "gpu" in record]
    if not used:
        return {}
    devices: list[Record] = []
    for record in used:
        if record["gpu"]["device"] not in devices:
            devices.append(record["gpu"]["device"])
    found = {
        "devices": devices,
        "how": sorted({how for record in used for how in record["gpu"]["how"]}),
        "rows": sum(record["rows"] for record in used),
        "rows_of_processors": sum(record["rows"] for record in records if "gpu" not in record),
        "cells_checked": sum(record["gpu"]["cells_checked"] for record in used),
        "mismatches": sum(record["gpu"]["mismatches"] for record in used),
    }
    return {"gpu": found}


def warning_of(gpu: Record) -> str:
    """What to tell of such an entry, if its GPU was wrong; else nothing."""
    if not gpu.get("mismatches"):
        return ""
    return (
        f"cells: {gpu['mismatches']:,} of {gpu['cells_checked']:,} cells of a GPU differ from a processor's; "
        "those blocks were mapped by processors. Please report it, with metrics.json"
    )


def explain_cells(model: Partitions, asked: str) -> list[str]:
    """How this process would find the cells, for people."""
    device = device_of_worker(asked)
    if device is None:
        # A GPU that is there and cannot be used is not passed over in silence.
        why = [f"on a processor: {find_gpu()}"] if asked == "auto" and gpu_is_given() else []
        return why + model.explain()
    return [f"on the GPU, {device.name}: {mapper_of(model, device).explain()}"]
