"""Have damaged objects made again: they no longer count as done, so their stage makes them once more."""

from __future__ import annotations

import json
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.errors import ClusterLost, Damaged, InputError
from pipeline.storage.predictions import read_predictions
from pipeline.storage.store import DOCUMENT

if TYPE_CHECKING:
    from distributed import Worker

    from pipeline.running.stage import Context
    from pipeline.storage.rundir import RunDirectory

ATTEMPTS = 3
"""Number of times in a row that an object may be damaged before it is given up."""
LOOK_SECONDS = 0.05
STORE = "store.zarr"


def check_models(run: RunDirectory, say: Callable[[str], None]) -> None:
    """Read all models of a run that is taken up again; a damaged one of a batch run counts as not done.

    It reads models, partitionings, and the description of columns and classes; of a finished stream, models and
    predictions. No stage reads a model again once it is evaluated: damage would show only when the model is used to
    score, where it can only be named.

    Parameters
    ----------
    say : callable
        Function that shows a line.

    Raises
    ------
    Damaged
        A model or the predictions of a finished stream: they came from rows that may be gone.
    """
    if "online" in run.manifest["identity"]:
        if run.finished:
            with needing_all_of("the same command with --fresh"):
                for output in _needed_to_score(run):
                    run.store.read_group(output)
                for promise in run.manifest["stages"]["stream"]["result"].get("predicted", {}).values():
                    read_predictions(run.path, promise)
        return
    for output in _needed_to_score(run):
        try:
            run.store.read_group(output)
        except Damaged as damaged:
            place = Path(damaged.path).resolve()
            if place.is_relative_to(run.path.resolve()):  # shared objects are made again by their own runs
                say(f"{damaged}; it is made again")
                _remove(place)
                run.manifest["status"] = "unfinished"


def _needed_to_score(run: RunDirectory) -> list[str]:
    """Return the groups of the store that scoring with the run reads."""
    stages = run.manifest["stages"]
    prepare = [name for name in stages if name in ("ingest", "shuffle") or name.startswith("calibrate:")]
    train = [name for name in stages if name == "partition" or name.startswith("train:")]
    records = [record for name in train for record in run.records(name).values()]
    # The other records of a stream are those of chunks.
    records += [record for record in run.records("stream").values() if record is not None and "content_hash" in record]
    lasting = [record for record in records if record is not None and not record.get("temporary")]
    of_preparation = [output for name in prepare for output in stages[name].get("outputs", ())]
    return of_preparation + [
        output for record in lasting for output in record.get("outputs", ()) if "/c/" not in output
    ]


@contextmanager
def needing_all_of(again: str) -> Iterator[None]:
    """Add a remedy to the errors for damaged objects of a finished run.

    Parameters
    ----------
    again : str
        The command that makes the run again.

    Raises
    ------
    Damaged
        With the remedy.
    """
    try:
        yield
    except Damaged as damaged:
        raise damaged.with_remedy(f"restore it from a copy, or make the run again: {again}") from None


def _anything_can(within: str) -> str | None:  # noqa: ARG001
    return None


def until_verified[T](
    context: Context, work: Callable[[], T], cannot: Callable[[str], str | None] = _anything_can
) -> T:
    """Call `work` and return its result. If it finds a damaged object, remove the object and call it once more.

    Parameters
    ----------
    work : callable
        Stages that go on from the outputs that are there.
    cannot : callable
        Function from the place of an object in the run directory to the reason why it cannot be made again, or None.

    Raises
    ------
    Damaged
        The object is not in the directory of the run, but shared with others: the run that made it makes it again.
    InputError
        The object cannot be made again, or is damaged again and again; it is named. Or `work` raises it.
    """
    times = Counter[str]()
    damaged: Damaged | None = None
    while True:
        try:
            return work()
        except Damaged as error_found:
            times = Counter({error_found.path: times[error_found.path] + 1})  # the counts of other objects begin anew
            if times[error_found.path] == ATTEMPTS:
                again = f"{ATTEMPTS} times in a row; check the disk and the memory of this machine"
                raise InputError(f"{error_found}, {again}") from None
            within = _within(context, error_found)
            if within is None:
                settle(context)
                raise
            if (why := cannot(within)) is not None:
                raise InputError(f"{error_found} and cannot be made again: {why}") from None
            withdraw(context, error_found)
            context.events.message(f"{error_found}; it is made again")
            damaged = error_found if within.startswith(STORE) else None  # other things come and go
        except ClusterLost:
            raise
        except InputError as error:
            if damaged is not None and _is_gone(Path(damaged.path)):
                raise InputError(f"{damaged} and cannot be made again: {error}") from None
            raise


def _is_gone(path: Path) -> bool:
    """Return whether an object that :func:`withdraw` has removed is still missing."""
    return not (path / DOCUMENT if path.is_dir() else path).exists()


def _within(context: Context, damaged: Damaged) -> str | None:
    """Return the path relative to the run directory, if the object lies in it and no link leads elsewhere."""
    place, top = Path(damaged.path).resolve(), context.run.path.resolve()
    return str(place.relative_to(top)) if place.is_relative_to(top) else None


def withdraw(context: Context, damaged: Damaged) -> None:
    """Remove a damaged object, so that it counts as not done."""
    settle(context)
    for path in map(Path, damaged.withdrawn):
        _remove(path.resolve())


def _remove(path: Path) -> None:
    """Remove a file, or a directory; of a group, its document and its arrays, not the groups below it."""
    if not path.is_dir():
        path.unlink(missing_ok=True)
        return
    (path / DOCUMENT).unlink(missing_ok=True)  # first: half-removed, it must not look complete
    for entry in list(path.iterdir()):
        if not entry.is_dir():
            entry.unlink()
        elif not _is_group(entry):
            shutil.rmtree(entry)
    with suppress(OSError):  # unless something is left in it
        path.rmdir()


def _is_group(path: Path) -> bool:
    try:
        return bool(json.loads((path / DOCUMENT).read_bytes())["node_type"] == "group")
    except (OSError, ValueError, KeyError, TypeError):
        return False


def settle(context: Context) -> None:
    """Wait until no worker is at a task of the run, so that no two tasks write the same thing at once."""
    client, run = context.client, context.run.manifest["id"][:8]
    while any(client.run(_at_work, run, on_error="ignore").values()):
        time.sleep(LOOK_SECONDS)


def _at_work(run: str, dask_worker: Worker) -> bool:
    """Return, on a worker, whether it is at a task of the run."""
    return any(run in str(key) for key in dask_worker.active_threads.values())
