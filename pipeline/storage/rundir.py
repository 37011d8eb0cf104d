"""The directory of a run: it has the identity of the run and its finished stages, and so where to go on."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock
from typing import cast
from uuid import uuid4

from ikmap.json_values import Json, MutableJsonObject
from pipeline.errors import Damaged, InputError
from pipeline.params import LACKED, completed_identity
from pipeline.record_types import Begun, FinishedStage, Manifest, Record, Result, Session, Summary, TaskRecord
from pipeline.storage.durable import (
    UNFINISHED,
    json_text,
    parsed,
    read_json,
    reading,
    replacing,
    unsealed,
    write_json,
    written,
)
from pipeline.storage.hold import LOCK, Hold
from pipeline.storage.store import Store

MANIFEST = "manifest.json"
MANIFEST_COPY = ".manifest.copy"
"""A copy of the manifest, in case the manifest is damaged; at most one step behind."""
RECORDS = "records"
BEGUN = "begun"
"""File beside the records of a stage: when the stage was begun, and the seconds that processes have spent on it."""
METRICS = "metrics.json"
SCHEMA_VERSION = 2
DISCARDED = "discarded"
"""Status of a run that is being removed."""


class RunDirectory:
    """An open run directory. No other process can open it until this one closes it.

    Parameters
    ----------
    path : Path
        Directory, which is made for this user alone if it does not exist.
    identity : mapping
        JSON values that decide the result: parameters and data. A directory of a run with another identity is
        refused with the differences named.
    fresh : bool
        Whether to discard a run that is there.
    begin : bool
        Whether to begin at once; else nothing is written or discarded until :meth:`begin`.
    new : bool
        Whether the directory must not exist yet.

    Raises
    ------
    InputError
        The directory cannot be written, belongs to something else, to another run, or is in use.
    Taken
        The directory was to be new and exists.
    """

    def __init__(
        self,
        path: Path,
        identity: Mapping[str, Json],
        *,
        fresh: bool = False,
        begin: bool = True,
        new: bool = False,
    ) -> None:
        self.path = path
        self.manifest: Manifest
        self.resumed = False
        self.repaired = ""
        self._begun = False
        self._discarded: list[str] | None = None  # entries of an older run, once it is known that there is one
        self._saving = Lock()  # stages may end at the same time
        self._hold = Hold(self.path, new=new)
        try:
            self._open(json.loads(json.dumps(identity)), fresh)
            if begin:
                self.begin()
        except BaseException:
            self.withdraw()
            self.close()
            raise

    def _open(self, identity: MutableJsonObject, fresh: bool) -> None:
        manifest, copy = self.path / MANIFEST, self.path / MANIFEST_COPY
        # Left by a process that was killed while it wrote its first manifest.
        for partial in self.path.glob(".*manifest*.*"):
            if partial != copy:
                partial.unlink()
        others = [entry.name for entry in self.path.iterdir() if entry.name not in (LOCK, MANIFEST, MANIFEST_COPY)]
        if others and not manifest.exists() and not copy.exists():
            raise InputError(
                f"{self.path}: found {others[0]} but no {MANIFEST}: not the directory of a run; name another"
            )
        exists = manifest.exists() or copy.exists()
        if exists and (fresh or read_manifest_or_copy(self.path)[0]["status"] == DISCARDED):
            self._discarded = others
            exists = False
        if exists:
            self.manifest, self.repaired = read_manifest_or_copy(self.path)
            old_layout, new_layout = (held.get("layout") for held in (self.manifest["identity"], identity))
            if old_layout != new_layout:  # then nearly all of it has another name, which would only hide why
                raise InputError(
                    f"{self.path} was made by another version (found layout {old_layout}, expected {new_layout}); give "
                    "another --run-dir, or --fresh to do it again"
                )
            # The new identity is completed too: whatever it lacks has the default there as well.
            # A run may also be named by the parameters that its labels, or a race, have settled.
            held, settled = self.manifest["identity"], self.manifest.get("settled")
            alike = [held] if settled is None else [held, {**held, "params": settled}]
            expected = completed_identity(identity)
            changed = min((_differences(completed_identity(own), expected) for own in alike), key=len)
            if self.finished:  # an unfinished run would go on otherwise than it has begun
                changed = [text for text in changed if text.partition(" was ")[0] not in LACKED]
            if changed:
                raise InputError(
                    f"{self.path} holds another run: {'; '.join(changed)}; give the options that it was begun with, "
                    "another --run-dir, or --fresh"
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

    def begin(self) -> None:
        """Write down that the run has begun, after a run that is to be discarded was removed."""
        if self._begun:
            return
        if self._discarded is not None:
            # Marked first and unmarked last: a process that finds a half-removed run goes on removing it.
            _mark_discarded(self.path / MANIFEST)
            for name in self._discarded:
                _remove(self.path / name)
            # Flushed before the next run begins: old records must not be taken for those of the new run.
            written(self.path)
            (self.path / MANIFEST).unlink()
        self._begun = True
        if not self.resumed:
            self.save()
            above = self.path.absolute().parent
            written(above, above.parent)
        self.store.create()

    def withdraw(self, *, keep_tasks: bool = False) -> None:
        """Remove the files of a run that was refused, if no stage of it is done; an earlier run stays as it was.

        Parameters
        ----------
        keep_tasks : bool
            Whether the run also stays if a task of a stage is done: it may be possible to go on.
        """
        if self._begun and not self.resumed:
            if self.manifest["stages"] or (keep_tasks and any((self.path / RECORDS).rglob("*.json"))):
                return
            # The manifest goes last: while a worker is still writing files, the directory is still that of a run.
            entries = sorted(self.path.iterdir(), key=lambda entry: entry.name in (MANIFEST, MANIFEST_COPY))
            with suppress(OSError):
                for entry in entries:
                    if entry.name != LOCK:
                        _remove(entry)
        self._hold.undo()

    @property
    def store(self) -> Store:
        """Store of the run, by its absolute path: workers open it too, which may have another working directory."""
        return Store(self.path.absolute() / "store.zarr")

    @property
    def finished(self) -> bool:
        """True if the run is finished."""
        return bool(self.manifest["status"] == "finished")

    def metrics(self, say: Callable[[str], None]) -> Record | None:
        """Return ``metrics.json`` if the run is finished; if it is damaged, say so, and it counts as unfinished."""
        if not self.finished:
            return None
        try:
            return read_json(self.path / METRICS)
        except (Damaged, FileNotFoundError) as error:
            damaged = error if isinstance(error, Damaged) else Damaged(str(self.path / METRICS), "it is missing")
            say(f"{damaged}; it is made again")
            self.manifest["status"] = "unfinished"
            return None

    def begin_session(self, start_seconds: float = 0.0) -> None:
        """Note that a process begins to work on the run, and count the seconds of one that was stopped before.

        Parameters
        ----------
        start_seconds : float
            Seconds that the process took to get here, which are no work on the run; those of all processes add up.
        """
        self.manifest["seconds"] = self.spent
        self.manifest["start_seconds"] = round(self.manifest.get("start_seconds", 0.0) + start_seconds, 3)
        self.manifest["session"] = time.time()
        self.save(certain=False)

    @property
    def spent(self) -> float:
        """Seconds of all processes that have worked on the run before.

        It is unknown when a process was stopped; its time is counted up to the last file that it wrote here.
        """
        return _spent(self.manifest, [self.path / MANIFEST, *(self.path / RECORDS).rglob("*")])

    def end_session(self, seconds: float) -> None:
        """Count the seconds of this process, whose work is done; :meth:`save` is left to the caller."""
        del self.manifest["session"]
        self.manifest["seconds"] = round(self.manifest["seconds"] + seconds, 3)

    def sweep(self) -> None:
        """Remove the half-written files that killed processes have left: Zarr takes those in a group for members."""
        for folder, _, names in os.walk(self.path):
            for name in names:
                if name.endswith(UNFINISHED):
                    Path(folder, name).unlink(missing_ok=True)

    def save(self, *, certain: bool = True, before: Iterable[str] = ()) -> None:
        """Write the manifest, and after it the copy.

        Parameters
        ----------
        certain : bool
            Whether it is flushed; else after a power cut it may be the manifest before.
        before : iterable of str
            Files and directories that are flushed before it is written.
        """
        text = json_text(self.manifest)
        with replacing(self.path / MANIFEST, entry=certain, before=before) as file:
            file.write(text)
        with replacing(self.path / MANIFEST_COPY, content=False, entry=False) as file:
            file.write(text)

    def stage(self, name: str) -> FinishedStage | None:
        """Return the record and the result of a finished stage, or None if it is not finished."""
        return self.manifest["stages"].get(name)

    def begin_stage(self, name: str, started: float) -> tuple[float, float]:
        """Note that a process begins to work on a stage.

        Parameters
        ----------
        started : float
            Seconds of the run so far.

        Returns
        -------
        started, seconds : float
            Seconds of the run when the first process began the stage, and seconds that the processes before this one
            have spent on it.
        """
        file = self._begun_file(name)
        known: Begun = {"started": started, "seconds": 0.0}
        with suppress(FileNotFoundError, Damaged):
            known = cast("Begun", read_json(file))
        seconds = _spent(known, file.parent.rglob("*"))
        now: Begun = {"started": known["started"], "seconds": seconds, "session": time.time()}
        write_json(file, now, content=False, entry=False)
        return known["started"], seconds

    def _begun_file(self, stage: str) -> Path:
        return self.task_record(stage, BEGUN).with_suffix("")

    def finish_stage(
        self,
        name: str,
        record: Summary,
        result: Result,
        outputs: Sequence[str] = (),
        records: Iterable[str] = (),
        obsolete: Sequence[str] = (),
    ) -> None:
        """Note in the manifest that a stage is done, then delete the groups of the store that only this stage needed.

        All files of the stage, also its `records`, are flushed first.

        Parameters
        ----------
        outputs : sequence of str
            Outputs that are in no record.
        obsolete : sequence of str
            Groups to delete. If this process is killed before it has, the next one does, by :meth:`delete_obsolete`.
        """
        folder = self.task_record(name, "any").parent
        before = {*records, str(folder), str(folder.parent), str(self.path)}
        times = {key: record.get(key, 0.0) for key in ("started", "seconds")}
        write_json(self._begun_file(name), times, content=False, entry=False)
        with self._saving:
            finished: FinishedStage = {"record": record.copy(), "result": dict(result)}
            if outputs:
                finished["outputs"] = list(outputs)
            if n_records := sum(1 for _ in folder.glob("*.json")):
                finished["records"] = n_records
            if obsolete:
                finished["obsolete"] = list(obsolete)
            self.manifest["stages"][name] = finished
            # The records alone would do: if this is lost in a power cut, they are read again.
            self.save(certain=False, before=before)
        self.delete_obsolete(name)

    def delete_obsolete(self, name: str) -> None:
        """Delete the groups of the store that only this stage needed, which is done and is not to be made again."""
        for group in self.manifest["stages"][name].get("obsolete", ()):
            self.store.delete(group)

    def records(self, stage: str) -> dict[str, TaskRecord | None]:
        """Read the records of a stage's tasks, by task; None for a damaged record, whose task counts as not done."""
        records: dict[str, TaskRecord | None] = {}
        for path in self.task_record(stage, "any").parent.glob("*.json"):
            try:
                records[path.stem] = cast("TaskRecord", read_json(path))
            except Damaged:
                records[path.stem] = None
        return records

    def task_record(self, stage: str, task: str) -> Path:
        """Return the file with the record of a finished task, by its absolute path.

        Checkpoints stand beside it, and workers that write them may have another working directory.
        """
        return self.path.absolute() / RECORDS / stage.replace(":", "-") / f"{task}.json"

    def close(self) -> None:
        """Let other processes have the directory, which is as it was if the run has not begun."""
        if self._begun:
            self._hold.close()
        else:
            self._hold.undo()


def _remove(entry: Path) -> None:
    shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink()


def _spent(session: Session, files: Iterable[Path]) -> float:
    """Return the seconds that processes have spent on a run or a stage.

    It is unknown when a process was stopped; its time is counted up to the last of the files that it wrote.

    Parameters
    ----------
    session : mapping
        seconds: of processes that have ended; session: when the last process began, in seconds since the epoch, if it
        was stopped.
    """
    lost = 0.0
    if "session" in session:
        times = [0.0]
        for file in files:
            with suppress(FileNotFoundError):  # a worker that has outlived its killed client may still be renaming
                times.append(file.stat().st_mtime)
        lost = max(times) - session["session"]
    return float(session["seconds"] + round(max(0.0, lost), 3))


def discard(path: Path) -> None:
    """Mark the run in a directory, if there is one, to be removed by the process that opens the directory next.

    Raises
    ------
    InputError
        A process is working on it.
    """
    if (path / MANIFEST).exists() or (path / MANIFEST_COPY).exists():
        with Hold(path):
            _mark_discarded(path / MANIFEST)


def _mark_discarded(manifest: Path) -> None:
    write_json(manifest, {"schema_version": SCHEMA_VERSION, "status": DISCARDED})
    (manifest.parent / MANIFEST_COPY).unlink(missing_ok=True)  # which says something else


def read_manifest(path: Path) -> Manifest:
    """Read the manifest of a run directory.

    Raises
    ------
    InputError
        There is no manifest, or another version wrote it.
    Damaged
    """
    name = path / MANIFEST
    try:
        with reading(name):
            manifest = parsed(name, name.read_bytes())
    except FileNotFoundError:
        if (path / MANIFEST_COPY).exists():
            raise Damaged(str(name), "it is missing") from None
        raise InputError(f"{path}: found no {MANIFEST}, expected the directory of a run") from None
    if isinstance(manifest, dict) and manifest.get("schema_version") == 1 and "digest" not in manifest:
        raise InputError(
            f"{name}: found version 1, expected {SCHEMA_VERSION}: the run was made by earlier software, which wrote no "
            "checksums; --fresh does it again"
        )
    manifest = cast("Manifest", unsealed(name, manifest))
    if manifest.get("schema_version") != SCHEMA_VERSION:
        raise InputError(f"{name}: found version {manifest.get('schema_version')}, expected {SCHEMA_VERSION}")
    return manifest


def read_manifest_or_copy(path: Path) -> tuple[Manifest, str]:
    """Read the manifest of a run directory, or its copy if it is damaged, with a line that says so.

    Raises
    ------
    InputError
        There is no manifest, another version wrote it, or both are damaged.
    """
    try:
        return read_manifest(path), ""
    except Damaged as damaged:
        with suppress(Damaged, FileNotFoundError):
            return cast("Manifest", read_json(path / MANIFEST_COPY)), f"{damaged}; the run goes on from its copy"
        raise InputError(f"{damaged}, and so is its copy; --fresh does the run again") from None


def _differences(old: object, new: object, name: str = "") -> list[str]:
    """List in which entries two JSON values differ, the old value before the new one."""
    if isinstance(old, dict) and isinstance(new, dict):
        keys = [*old, *(key for key in new if key not in old)]
        return [
            text for key in keys for text in _differences(old.get(key), new.get(key), f"{name}.{key}" if name else key)
        ]
    return [] if old == new else [f"{name} was {old!r}, now {new!r}"]
