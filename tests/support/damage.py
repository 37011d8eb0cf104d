"""Damage to the objects of a run, and how a run would read them: what it sees is what was written, or a complaint."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.errors import Damaged
from pipeline.storage.durable import read_arrays, read_json
from pipeline.storage.predictions import digest_of_predictions
from pipeline.storage.rundir import MANIFEST, MANIFEST_COPY, read_manifest
from pipeline.storage.store import Store
from pipeline.training.engine import STATE, Folder
from tests.support.calls import counted
from tests.support.one_process import Snapshots, commands, forget, one_process, write_rows

PAGE = 4096


@dataclass(frozen=True)
class Object:
    """A stored file of a run, some way into it."""

    run: Path
    file: str
    group: str
    kind: str

    @property
    def path(self) -> Path:
        return self.run / self.file

    def read(self) -> Any:
        """As a run reads it.

        Raises
        ------
        Damaged
        """
        if self.file.startswith("store.zarr"):
            store = Store(self.run / "store.zarr")
            attributes, arrays = store.read_group(self.group)
            return attributes, {key: (array.dtype, array.shape, array.tobytes()) for key, array in arrays.items()}
        if self.file.startswith("predictions"):
            records = [read_json(path) for path in sorted((self.run / "records" / "stream").glob("*.json"))]
            promises = [promise for record in records if (promise := record.get("predicted")) is not None]
            for promise in promises:
                if digest_of_predictions(self.run, promise) != promise["sha256"]:
                    raise Damaged(self.file, "its SHA-256 is wrong")
            return promises
        if self.path.suffix == ".npz":
            return {key: array.tobytes() for key, array in read_arrays(self.path).items()}
        return read_manifest(self.run) if self.file == MANIFEST else read_json(self.path)


def _group_of(path: Path, top: Path) -> str:
    """The group that a file of the store is read with: of a chunk or array, that which the array is in."""
    folder = path.parent
    while not (folder / "zarr.json").exists() or b'"node_type": "array"' in (folder / "zarr.json").read_bytes():
        folder = folder.parent
    return str(folder.relative_to(top))


def flip(path: Path, bit: int) -> None:
    """Turn one bit of a file over, in place."""
    with open(path, "r+b") as file:
        file.seek(bit // 8)
        (byte,) = file.read(1)
        file.seek(bit // 8)
        file.write(bytes([byte ^ (1 << bit % 8)]))


def zero_page(path: Path, page: int) -> None:
    """Let a page of a file read as zeros."""
    size = path.stat().st_size
    with open(path, "r+b") as file:
        file.seek(page * PAGE)
        file.write(bytes(min(PAGE, size - page * PAGE)))


def unnoticed(thing: Object, expected: Any, damage: Any) -> bool:
    """Damage an object, read it as a run does, and put it right; whether something else than `expected` was read."""
    whole = thing.path.read_bytes()
    damage(thing.path)
    forget()
    try:
        return bool(thing.read() != expected)
    except Damaged:
        return False
    finally:
        thing.path.write_bytes(whole)


def objects(made: Mapping[str, Snapshots]) -> dict[str, list[Object]]:
    """Objects of runs as they were when copies were taken, by kind."""
    found: dict[str, list[Object]] = defaultdict(list)
    seen: set[tuple[str, bytes]] = set()
    for name, snapshots in made.items():
        for run in snapshots.taken.values():
            for path in sorted(path for path in run.rglob("*") if path.is_file()):
                kind, content, place = _kind(run, path), path.read_bytes(), str(path.relative_to(run))
                if kind and content and (f"{name}/{place}", content) not in seen:
                    seen.add((f"{name}/{place}", content))
                    group = _group_of(path, run / "store.zarr") if place.startswith("store.zarr") else ""
                    found[kind].append(Object(run, place, group, kind))
    return dict(found)


def runs(folder: Path) -> dict[str, Snapshots]:
    """Small runs with a copy after every stage; the solver in rounds is also caught half-way."""
    file = write_rows(folder)
    taken = {}
    with one_process():
        for name, command in commands(file).items():
            taken[name] = snapshots = Snapshots(folder / name, folder / f"{name}-copies")

            def written(of: Mapping[str, Any], taken: Snapshots = snapshots) -> None:
                if (of["name"], of["done"]) == (STATE, 4):  # the first round counts the classes
                    taken.take("round-3")

            with counted(Folder.write, note=written, end=True):
                command.run(folder / name, snapshots)
            snapshots.take("finished")
    return taken


def _kind(run: Path, path: Path) -> str:
    parts = path.relative_to(run).parts
    if parts[0] == "store.zarr":
        if parts[-1] != "zarr.json":
            return f"{parts[1]}: " + ("shard" if parts[1] == "cells" and "stream" not in parts else "chunk")
        if b'"node_type": "array"' in path.read_bytes():
            return f"{parts[1]}: array metadata"
        # Groups that Zarr makes on its way to another say nothing and are not read.
        return f"{parts[1]}: attributes" if b'"digest"' in path.read_bytes() else ""
    if parts[0] in (MANIFEST, MANIFEST_COPY, "metrics.json"):
        return parts[0]
    if parts[0] in ("predictions", "checkpoints"):
        return parts[0]
    if len(parts) > 3 and parts[2].startswith("rounds-"):
        return f"solver: {parts[-1].partition('-')[0]}"
    return "record" if parts[0] == "records" else ""


def bits(thing: Object) -> int:
    return 8 * os.path.getsize(thing.path)


def some_damage(rng: np.random.Generator, thing: Object) -> Any:
    """One flipped bit, or now and then a page of zeros."""
    n = bits(thing)
    if rng.random() < 0.1:
        page = int(rng.integers(-(-n // (8 * PAGE))))
        return lambda path: zero_page(path, page)
    bit = int(rng.integers(n))
    return lambda path: flip(path, bit)
