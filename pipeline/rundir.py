"""The directory of a run: what it is a run of, what is finished, and how to go on."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock
from typing import IO, Any
from uuid import uuid4

from pipeline.errors import InputError
from pipeline.store import Store

MANIFEST = "manifest.json"
RECORDS = "records"
LOCK = ".lock"
SCHEMA_VERSION = 1
DISCARDED = "discarded"
"""Status of a run that is being removed."""


def write_json(path: Path, value: Any) -> None:
    """Write JSON so that the file is either the old one or the whole new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        os.chmod(name, 0o666 & ~_umask())  # mkstemp makes files for its owner only
        with os.fdopen(handle, "w") as file:
            json.dump(value, file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


class RunDirectory:
    """An opened run directory, held by this process alone until it is closed.

    Parameters
    ----------
    path : Path
        Made where it is not there, for this user alone.
    identity : mapping
        JSON values that decide the result: parameters and data. A directory of a run with another identity is
        refused with the differences named.
    fresh : bool
        Discard the run that is there.

    Raises
    ------
    InputError
        The directory cannot be written, belongs to something else, to another run, or is in use.
    """

    def __init__(self, path: Path, identity: Mapping[str, Any], *, fresh: bool = False) -> None:
        self.path = path
        self.resumed = False
        self._saving = Lock()  # stages may end at the same time
        self._lock = hold(self.path)
        try:
            self._open(json.loads(json.dumps(identity)), fresh)
        except BaseException:
            self.close()
            raise

    def _open(self, identity: dict[str, Any], fresh: bool) -> None:
        manifest = self.path / MANIFEST
        for partial in self.path.glob(f".{MANIFEST}.*"):  # of a process that was killed as it wrote the first one
            partial.unlink()
        others = [entry.name for entry in self.path.iterdir() if entry.name not in (LOCK, MANIFEST)]
        if others and not manifest.exists():
            raise InputError(
                f"{self.path}: found {others[0]} but no {MANIFEST}: not the directory of a run; name another"
            )
        if manifest.exists() and (fresh or read_manifest(self.path)["status"] == DISCARDED):
            # Said first and taken back last: whoever finds a half-removed run goes on removing it.
            _mark_discarded(manifest)
            for name in others:
                entry = self.path / name
                shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink()
            manifest.unlink()
        if manifest.exists():
            self.manifest = read_manifest(self.path)
            changed = _differences(self.manifest["identity"], identity)
            if changed:
                raise InputError(
                    f"{self.path} holds another run: {'; '.join(changed)}; use another --run-dir, or --fresh"
                )
            self.resumed = True
        else:
            self.manifest = {
                "schema_version": SCHEMA_VERSION,
                "id": uuid4().hex[:12],
                "status": "unfinished",
                "started": datetime.now(UTC).isoformat(timespec="seconds"),
                "seconds": 0.0,
                "identity": identity,
                "stages": {},
            }
            self.save()
        self.store.create()

    @property
    def store(self) -> Store:
        return Store(self.path / "store.zarr")

    @property
    def finished(self) -> bool:
        return bool(self.manifest["status"] == "finished")

    def begin_session(self, start_seconds: float = 0.0) -> None:
        """Note that a process begins to work on the run, and count the seconds of one that was stopped before.

        Parameters
        ----------
        start_seconds : float
            What it took the process to get here, which is no work on the run; all processes' are added up.
        """
        self.manifest["seconds"] = self.spent
        self.manifest["start_seconds"] = round(self.manifest.get("start_seconds", 0.0) + start_seconds, 3)
        self.manifest["session"] = time.time()
        self.save()

    @property
    def spent(self) -> float:
        """Seconds of all processes that have worked on the run before.

        Nobody knows when one was stopped; its time is counted up to the last file that it wrote here.
        """
        lost = self._last_written() - self.manifest["session"] if "session" in self.manifest else 0.0
        return float(self.manifest["seconds"] + round(max(0.0, lost), 3))

    def end_session(self, seconds: float) -> None:
        """Count the seconds of this process, whose work is done; :meth:`save` is left to the caller."""
        del self.manifest["session"]
        self.manifest["seconds"] = round(self.manifest["seconds"] + seconds, 3)

    def _last_written(self) -> float:
        """When a file of the stages was written last, in seconds since the epoch."""
        files = [self.path / MANIFEST, *(self.path / RECORDS).rglob("*")]
        times = [0.0]
        for file in files:
            with suppress(FileNotFoundError):  # a worker that has outlived its killed client may still be renaming
                times.append(file.stat().st_mtime)
        return max(times)

    def save(self) -> None:
        """Write the manifest."""
        write_json(self.path / MANIFEST, self.manifest)

    def stage(self, name: str) -> dict[str, Any] | None:
        """What a finished stage left: ``{"record": ..., "result": ...}``."""
        found: dict[str, Any] | None = self.manifest["stages"].get(name)
        return found

    def finish_stage(self, name: str, record: Mapping[str, Any], result: Mapping[str, Any]) -> None:
        with self._saving:
            self.manifest["stages"][name] = {"record": dict(record), "result": dict(result)}
            self.save()

    def task_record(self, stage: str, task: str) -> Path:
        """Where the record of a finished task stands."""
        return self.path / RECORDS / stage.replace(":", "-") / f"{task}.json"

    def close(self) -> None:
        """Let other processes have the directory."""
        self._lock.close()


def discard(path: Path) -> None:
    """Have the run in a directory, if there is one, removed by whoever opens the directory next.

    Raises
    ------
    InputError
        A process is working on it.
    """
    if (path / MANIFEST).exists():
        with hold(path):
            _mark_discarded(path / MANIFEST)


def _mark_discarded(manifest: Path) -> None:
    write_json(manifest, {"schema_version": SCHEMA_VERSION, "status": DISCARDED})


def hold(path: Path) -> IO[str]:
    """Keep other processes out of a directory, which is made where it is not there, until the file returned is closed.

    One that is made is its user's alone, as rows are stored in it; one that is there keeps its mode.

    Raises
    ------
    InputError
        Another one holds it, or it cannot be written.
    """
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = open(path / LOCK, "a")  # noqa: SIM115 - held until closed
    except (FileExistsError, NotADirectoryError):
        raise InputError(f"{path}: found a file, expected a directory for the run") from None
    except OSError as error:
        raise InputError(f"{path}: cannot write the run directory: {error.strerror}") from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        lock.close()
        raise InputError(f"{path}: another process is working on this run") from None
    return lock


def read_manifest(path: Path) -> dict[str, Any]:
    """Read the manifest of a run directory.

    Raises
    ------
    InputError
        There is none, or another version wrote it.
    """
    try:
        manifest: dict[str, Any] = json.loads((path / MANIFEST).read_text())
    except FileNotFoundError:
        raise InputError(f"{path}: found no {MANIFEST}, expected the directory of a run") from None
    except ValueError as error:
        raise InputError(f"{path / MANIFEST}: not JSON: {error}") from None
    if not isinstance(manifest, dict):
        raise InputError(f"{path / MANIFEST}: found a JSON {type(manifest).__name__}, expected an object")
    if manifest.get("schema_version") != SCHEMA_VERSION:
        raise InputError(
            f"{path / MANIFEST}: found version {manifest.get('schema_version')}, expected {SCHEMA_VERSION}"
        )
    return manifest


def _differences(was: Any, now: Any, name: str = "") -> list[str]:
    """Name the leaves in which two JSON values differ, old value first."""
    if isinstance(was, dict) and isinstance(now, dict):
        keys = [*was, *(key for key in now if key not in was)]
        return [
            text for key in keys for text in _differences(was.get(key), now.get(key), f"{name}.{key}" if name else key)
        ]
    return [] if was == now else [f"{name} was {was!r}, now {now!r}"]
