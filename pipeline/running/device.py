"""Choose on which device, GPU or processor, a worker maps rows to cells, and record which it was.

A worker uses the GPU that it was given, one worker for each GPU. The cells that come back are compared with the
processor's on a sample of every block; the counts go into the run's records.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ikmap.device import Device, find_gpu
from ikmap.json_values import JsonObject
from ikmap.partitioners import Partitions
from ikmap.partitioners.mapper import Mapper
from ikmap.rows import Rows
from pipeline.errors import InputError
from pipeline.record_types import GPURecord, GPUTask, UsedGPU
from pipeline.running.foreign import checked
from pipeline.storage.lru_cache import PROCESS, LRUCache
from pipeline.storage.models import CACHED_MODELS

GIVEN = "CUDA_VISIBLE_DEVICES"
"""Variable that gives a process a GPU: dask-cuda sets it for each of its workers, Slurm for each of its jobs."""
CHECKED_ROWS = 32
"""Number of rows of a block, evenly spaced, whose cells the processor finds too."""

_mappers: LRUCache[tuple[str, str], Mapper] = PROCESS.keeps(CACHED_MODELS)
"""Mappers by content hash of the partitionings and name of the device."""


def device_of_worker(device: str | Device) -> Device | None:
    """Return the GPU that this process is to use; None for the processor.

    Parameters
    ----------
    device : {"auto", "cpu", "gpu"} or Device
        "auto": a GPU if this process was given one. On a machine that merely has one, all its workers would share it.

    Raises
    ------
    InputError
        If a GPU is requested and there is none.
    """
    if isinstance(device, Device):
        return device
    return usable(device, find_gpu()) if wants_gpu(device) else None


def wants_gpu(device: str) -> bool:
    """Return whether this process is to look for a GPU."""
    return device == "gpu" or (device == "auto" and gpu_is_given())


def usable(device: str, gpu: Device | str) -> Device | None:
    """Return the GPU of this process, or None if the reason why there is none stands in its place.

    Raises
    ------
    InputError
        If a GPU is requested and there is none.
    """
    if not isinstance(gpu, str):
        return gpu
    if device == "gpu":
        raise InputError(f"--device gpu: {os.uname().nodename}: {gpu}")
    return None


def gpu_is_given() -> bool:
    """Return whether this process was given a GPU."""
    given = os.environ.get(GIVEN, "").split(",")[0].strip()
    return given.isdigit() or given.startswith(("GPU-", "MIG-"))


def mapper_of(model: Partitions, device: Device) -> Mapper:
    """Return the mapper of partitionings on a device, which keeps the latest ones."""
    key = (model.content_hash, device.name)
    with _mappers.lock:
        mapper = _mappers.get(key)
        if mapper is None:
            _mappers.make_room()
            try:
                mapper = model.mapper(device)
            except MemoryError:  # other partitionings may take the memory
                _mappers.forget()
                mapper = model.mapper(device)
            _mappers.put(key, mapper)
        return mapper


@dataclass
class DeviceMap:
    """A map of rows to cells on a device, with counts of the cells that were checked.

    Parameters
    ----------
    model : Partitions
    requested : {"auto", "cpu", "gpu"} or Device
    """

    model: Partitions
    requested: str | Device = "auto"
    checked: int = 0
    mismatches: int = 0

    def __post_init__(self) -> None:
        self.device = device_of_worker(self.requested)

    def codes(self, X: Rows) -> np.ndarray:
        """Return the cells of rows: int32, shape (n, t)."""
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
            return self.model.cells(X, n_threads=1).codes  # so that right cells are stored in any case
        return codes


def record_of(maps: Sequence[DeviceMap]) -> GPUTask:
    """Return the entry ``gpu`` of a task's record; an empty record if the task used the processor."""
    used = [mapped for mapped in maps if mapped.device is not None]
    if not used:
        return {}
    device = used[0].device
    assert device is not None
    record: GPURecord = {
        "device": device.evidence(),
        "how": sorted({mapper_of(mapped.model, device).why for mapped in used}),
        "cells_checked": sum(mapped.checked for mapped in used),
        "mismatches": sum(mapped.mismatches for mapped in used),
    }
    return {"gpu": record}


def evidence_of(records: Sequence[GPUTask]) -> UsedGPU:
    """Return the entry ``gpu`` of ``metrics.json`` from the records of tasks that map rows, if any task used a GPU."""
    used = [record for record in records if "gpu" in record]
    if not used:
        return {}
    devices: list[JsonObject] = []
    for record in used:
        if record["gpu"]["device"] not in devices:
            devices.append(record["gpu"]["device"])
    return {
        "gpu": {
            "devices": devices,
            "how": sorted({how for record in used for how in record["gpu"]["how"]}),
            "rows": sum(record["rows"] for record in used),
            "rows_of_processors": sum(record["rows"] for record in records if "gpu" not in record),
            "cells_checked": sum(record["gpu"]["cells_checked"] for record in used),
            "mismatches": sum(record["gpu"]["mismatches"] for record in used),
        }
    }


def warning_of(evidence: UsedGPU) -> str:
    """Return a warning if cells of a GPU were wrong, else an empty text."""
    gpu = evidence.get("gpu")
    if gpu is None or not gpu["mismatches"]:
        return ""
    return (
        f"cells: {gpu['mismatches']:,} of {gpu['cells_checked']:,} cells of a GPU differ from a processor's; "
        "those blocks were mapped by processors. Please report it, with metrics.json"
    )


def explain_cells(model: Partitions, requested: str | Device) -> list[str]:
    """Return how this process would find the cells, for people."""
    device = device_of_worker(requested)
    if device is None:
        # A GPU that is there and cannot be used is not passed over in silence.
        why = [f"on a processor: {find_gpu()}"] if requested == "auto" and gpu_is_given() else []
        return why + model.explain()
    return [f"on the GPU, {device.name}: {mapper_of(model, device).explain()}"]
