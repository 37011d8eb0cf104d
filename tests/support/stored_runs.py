"""Small runs of every command, the ways in which what they store is read again, and what becomes of damage to it."""

from __future__ import annotations

import io
import os
import re
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import ikmap
from flows import batch, online, reproduce, score
from flows.cli import run_command
from pipeline import load_predictions, load_run
from pipeline.errors import Damaged, InputError
from pipeline.runs import score as scoring
from pipeline.storage.arrays import read
from pipeline.storage.durable import read_json
from pipeline.storage.store import Store
from tests.support.calls import counted
from tests.support.damage import PAGE, flip, zero_page
from tests.support.one_process import commands_in_this_process, forget, write_rows
from tests.support.sizes import sizes_made_small

HARMLESS, REPAIRED, DETECTED, SILENT, TRACEBACK = "harmless", "repaired", "detected", "SILENT", "TRACEBACK"
VERDICTS = (HARMLESS, REPAIRED, DETECTED, SILENT, TRACEBACK)
NOT_READ = (".html", ".png", ".pdf", ".svg", ".lock", "alerts.jsonl")
"""Files for people, and the lock, which is empty."""
COMMANDS: dict[str, Callable[[Sequence[str]], int]] = {
    "batch": batch.main,
    "online": online.main,
    "score": score.main,
    "reproduce": reproduce.main,
}


class Failed(Exception):
    """A reading that ended in something else than a result.

    Parameters
    ----------
    line : str
        What it said.
    expected : bool
        Whether that was one line and the exit status 2, or our exception with nothing chained to it.
    """

    def __init__(self, line: str, *, expected: bool) -> None:
        super().__init__(line)
        self.line, self.expected = line, expected


@dataclass(frozen=True)
class Result:
    """What a reading gave, and what was said of damage."""

    value: Any
    repaired: bool = False


type Read = Callable[[Path], Result]


@dataclass
class Stored:
    """A finished or unfinished run, and the ways to read it.

    Attributes
    ----------
    folder : Path
        The run as it was made, which is never damaged: every reading gets a copy.
    ways : dict of callable
        By name: read the copy at a path.
    expected : dict
        What each way gives of the undamaged run.
    made : dict
        What a finished run has made (:func:`kept`).
    """

    name: str
    folder: Path
    ways: Mapping[str, Read]
    expected: dict[str, Any] = field(default_factory=dict)
    made: Any = None

    def files(self) -> Iterator[tuple[str, Path]]:
        """Yield the kind and the place within the run of every file that is read again."""
        for path in sorted(self.folder.rglob("*")):
            if path.is_file() and not path.name.endswith(NOT_READ) and path.stat().st_size:
                place = path.relative_to(self.folder)
                yield f"{_kind(place)}{' of an unfinished run' * (' after ' in self.name)}", place


def _kind(place: Path) -> str:
    """What a file is, whichever run, learner or map it is of."""
    parts = place.parts
    for top in ("store.zarr", "records"):
        if top in parts:
            *_, area, last = (
                re.sub(r"[-_.]?[0-9][-0-9._]*", "N", part) for part in (*parts[: parts.index(top) + 2], parts[-1])
            )
            if top == "records":
                return f"{top}/{area.partition('-')[0]}: {last if last.endswith('.npz') else last.rpartition('N')[2]}"
            what = "metadata" if last == "zarr.json" else "chunk"
            return f"{top}/{area}: {what}"
    return f"{parts[0]}/" if parts[0] in ("predictions", "checkpoints") else parts[-1]


# --- damage


def damage(rng: np.random.Generator, path: Path, how: str) -> None:
    """Damage a file: ``flip`` a bit, ``cut`` its end off, ``empty`` it, ``delete`` it, or ``zero`` a page."""
    size = path.stat().st_size
    match how:
        case "flip":
            flip(path, int(rng.integers(8 * size)))
        case "cut":
            os.truncate(path, int(rng.integers(size)))
        case "empty":
            os.truncate(path, 0)
        case "delete":
            path.unlink()
        case "zero":
            zero_page(path, int(rng.integers(-(-size // PAGE))))


PRINTED, MADE = "printed", "made"
DAMAGE = ("flip", "cut", "empty", "delete", "zero")


def verdict(stored: Stored, way: str, place: Path, copy: Path) -> tuple[str, str]:
    """Read a damaged copy in one way. Return what became of the damage, and what was said."""
    forget()
    try:
        result = stored.ways[way](copy)
    except Failed as failed:
        if not failed.expected:
            return TRACEBACK, failed.line
        named = any(str(copy / above) in failed.line for above in (place, *place.parents) if above != Path())
        # Another value of an option is no damage that anybody could tell: the line says which option differs.
        named |= place.name == "run.toml" and f"{copy} holds another run: " in failed.line
        # Nor is another path: the line names it.
        named |= place.name == "run.toml" and failed.line.endswith(": no such file")
        return (DETECTED if named else TRACEBACK), failed.line
    # A finished run of which something is made again ends as one that was stopped: it is not only reported.
    made_again = isinstance(result.value, dict) and MADE in result.value and MADE not in stored.expected[way]
    expected = stored.made if made_again else stored.expected[way]
    if not _same(result.value, expected):
        return SILENT, _differences(result.value, expected)
    return (REPAIRED if result.repaired else HARMLESS), ""


@dataclass(frozen=True)
class Reading:
    """One reading of a damaged copy: what was damaged how, how it was read, what became of it, what was said."""

    what: str
    way: str
    verdict: str
    said: str


def readings(stored: Sequence[Stored], work: Path, seed: int, flips: int, others: int) -> Iterator[Reading]:
    """Damage objects, each kind in its turn, and read each damaged copy in every way.

    Parameters
    ----------
    work : Path
        A folder for the copies.
    flips, others : int
        Flipped bits, and then files that are cut, emptied, deleted or zeroed in part.
    """
    objects: dict[str, list[tuple[Stored, Path]]] = {}
    for one in stored:
        for kind, place in one.files():
            objects.setdefault(kind, []).append((one, place))
    rng, copy = np.random.default_rng(seed), work / "run"
    kinds = sorted(objects)
    order = np.concatenate([rng.permutation(len(kinds)) for _ in range(-(-(flips + others) // len(kinds)))])
    with commands_in_this_process(), _small_chunks():
        for k in range(flips + others):
            of = objects[kinds[order[k]]]
            one, place = of[int(rng.integers(len(of)))]
            how = "flip" if k < flips else DAMAGE[1 + int(rng.integers(len(DAMAGE) - 1))]
            shutil.rmtree(work, ignore_errors=True)
            shutil.copytree(one.folder, copy, symlinks=True)
            damage(rng, copy / place, how)
            # What is read without being changed comes first; then the command, by its options or by its run.toml.
            last = "again" if place.name == "run.toml" else "config"
            for way in (way for way in one.ways if way != last):
                yield Reading(f"{how} of {one.name}: {place}", way, *verdict(one, way, place, copy))


def _differences(value: Any, expected: Any) -> str:
    if not isinstance(value, dict) or not isinstance(expected, dict):
        return f"{value!r:.80} for {expected!r:.80}"
    return ", ".join(key for key in expected if not _same(value.get(key), expected[key]))


def _same(value: Any, expected: Any) -> bool:
    if isinstance(expected, dict) and isinstance(value, dict):
        return all(_same(value.get(key), expected[key]) for key in expected) and value.keys() <= expected.keys()
    # An array that no stage has read again may be damaged or gone: whoever reads it is told.
    if value is Damaged or (value is None and isinstance(expected, np.ndarray)):
        return True
    if isinstance(expected, np.ndarray):
        return isinstance(value, np.ndarray) and value.dtype == expected.dtype and value.tobytes() == expected.tobytes()
    return bool(value == expected)


# --- ways of reading


def run(name: str, *words: str) -> tuple[str, str]:
    """Run a command. Return what it printed and what it said; its exit status is 0.

    Raises
    ------
    Failed
    """
    out, said = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(said):
        status = run_command(COMMANDS[name], words)
    lines = said.getvalue().strip().splitlines()
    if status != 0:
        line = lines[-1] if lines else ""
        raise Failed(line or f"status {status}", expected=status == 2 and "Traceback" not in said.getvalue())
    if "Traceback" in said.getvalue():
        raise Failed(lines[-1], expected=False)
    return out.getvalue(), said.getvalue()


def in_python(read_it: Callable[[], Any]) -> Result:
    """Call what a Python program would call."""
    try:
        return Result(read_it())
    except InputError as error:
        walls = error.__cause__ is not None or (error.__context__ is not None and not error.__suppress_context__)
        raise Failed(f"{'CHAINED ' * walls}{error}", expected=not walls and "\n" not in str(error)) from None
    except Exception as error:
        raise Failed(f"{type(error).__name__}: {error}", expected=False) from None


REPAIRS = re.compile(r"made again|done again|its copy|from the beginning")


def kept(folder: Path) -> dict[str, Any]:
    """Everything of a run that is to have the same bits, however it came about; what is noticed as damaged is so."""
    found: dict[str, Any] = {MADE: True}
    for top in sorted({path.parent for path in folder.rglob("store.zarr")}):
        at, store = top.relative_to(folder), Store(top / "store.zarr")
        for document in sorted(Path(store.path).rglob("zarr.json")):
            group = str(document.parent.relative_to(store.path))
            try:
                attributes, arrays = store.attributes(group), store.open_arrays(group)
            except (Damaged, InputError):
                continue
            # Solutions that have been merged may be left by a run that was stopped just then.
            if attributes is None or "-solved/" in group or "-counts/" in group:
                continue
            for key, array in arrays.items():
                found[f"{at}/{group}/{key}"] = _read(array)
        for file in sorted((top / "predictions").glob("*")):
            found[f"{at}/{file.name}"] = _predictions(top, file.stem)
        metrics = read_json(top / "metrics.json") if (top / "metrics.json").exists() else {}
        for name, learner in metrics.get("learners", {}).items():
            found[f"{at}/{name}"] = {key: value for key, value in learner.items() if not key.endswith("seconds")}
            found[f"{at}/{name}"].pop("curve", None)
    return found


def _read(array: Any) -> Any:
    try:
        return read(array, slice(0, array.shape[0]))
    except Damaged:
        return Damaged


def _predictions(folder: Path, learner: str) -> Any:
    try:
        return load_predictions(folder, learner)
    except InputError:
        return Damaged


def command_again(name: str, *words: str) -> Read:
    """Give the command of a run again: a finished one is reported, an unfinished one goes on."""

    def again(folder: Path) -> Result:
        printed, said = run(name, *words, "--run-dir", str(folder))
        repaired = bool(REPAIRS.search(said))
        if name == "reproduce":
            _refused_rows(folder)
        elif "is finished" in said:
            return Result({PRINTED: printed}, repaired)
        return Result(kept(folder), repaired)

    return again


def _by_config(name: str) -> Read:
    return lambda folder: command_again(name, "--no-dask-report", "--config", str(folder / "run.toml"))(folder)


def _refused_rows(folder: Path) -> None:
    for experiment in read_json(folder / "results.json")["experiments"]:
        for row in experiment["rows"]:
            if row["status"] != "finished":
                raise Failed(row.get("message", ""), expected=row["status"] == "failed")


def scored(learner: str, rows: Path, suffix: str) -> Read:
    """Score with ``flows.score`` and read its file."""

    def by_command(folder: Path) -> Result:
        output = folder.parent / f"scores{suffix}"
        output.unlink(missing_ok=True)
        words = ("--model", str(folder), "--learner", learner, "--input", str(rows), "--output", str(output))
        _, said = run("score", *words, "--quiet")
        return Result(_table(output), bool(REPAIRS.search(said)))

    return by_command


def _table(output: Path) -> dict[str, Any]:
    if output.suffix == ".csv":
        return dict(pyarrow.csv.read_csv(output).to_pydict())
    return dict(pq.read_table(output, page_checksum_verification=True).to_pydict())


def loaded(load: Callable[..., Any], learner: str, rows: Any) -> Read:
    """Load a run in Python and use all that it has."""

    def predicted() -> Any:
        model = load(HERE.folder, learner)
        found = {"predicted": model.predict(rows), "decided": model.decision_function(rows)}
        found |= {"names": model.get_feature_names_out().tolist(), "classes": model.classes_.tolist()}
        repr(model)
        try:
            found["probabilities"] = model.predict_proba(rows)
        except AttributeError as error:
            found["probabilities"] = str(error)
        return found

    def in_this_process(folder: Path) -> Result:
        HERE.folder = folder
        return in_python(predicted)

    return in_this_process


@dataclass
class _Here:
    folder: Path = Path()


HERE = _Here()


def predictions_of(learner: str) -> Read:
    """Read what a learner has predicted of a stream."""
    return lambda folder: in_python(lambda: load_predictions(folder, learner))


# --- runs


def make(folder: Path, only: Collection[str] = ()) -> list[Stored]:
    """Make small runs of every command, finished and stopped on their way; or some of them, by name."""
    folder.mkdir(parents=True, exist_ok=True)
    rows, table, mixed, odd, clouds = _data(folder)
    few = {"libsvm": folder / "new.libsvm", "csv": folder / "new.csv", "mixed": folder / "new-mixed.csv"}
    few["libsvm"].write_text("".join(f"{line}\n" for line in rows.read_text().splitlines()[:12]))
    for name, file in (("csv", table), ("mixed", mixed)):
        few[name].write_text("".join(f"{line}\n" for line in file.read_text().splitlines()[:12]))
    small = ("--t", "5", "--psi", "8")
    libsvm, csv = np.random.default_rng(0).random((6, 5)), np.random.default_rng(0).random((6, 3))
    words = pa.table({"colour": ["red", "blue", "red"], "size": [0.5, 0.1, None], "letter": ["u", "v", "u"]})
    one = ("--C", "1", "--learner")
    runs: list[tuple[str, str, tuple[str, ...], str, Any]] = [
        ("classes", "batch", ("--input", str(rows), *small, *one, "svm,ogd,kernel-ogd", "--shard-rows", "64",
                              "--gamma", "1"), "libsvm", libsvm),
        ("rounds", "batch", ("--input", str(rows), *small, *one, "logistic", "--solver", "distributed", "--parts", "2",
                             "--partitioner", "iforest", "--test-size", "0.4"), "libsvm", libsvm),
        ("numbers", "batch", ("--input", str(table), "--task", "regression", "--label", "y", "--partitioner", "gcws",
                              "--scale", "minmax", "--t", "5", *one, "ridge", "--importance"), "csv", csv),
        ("words", "batch", ("--input", str(mixed), "--label", "y", *small, *one, "svm", "--partitioner",
                            "iforest,anne", "--calibration", "platt"), "mixed", words),
        ("novelty", "batch", ("--input", str(odd), "--task", "novelty", *small, "--learner", "idk"), "csv", csv),
        ("sweep", "batch", ("--input", str(table), "--task", "regression", "--label", "y", "--partitioner", "mondrian",
                            "--t", "4", "--cv-rows", "100", *one, "ridge"), "csv", csv),
        ("stream", "online", ("--input", str(rows), *small, "--learner", "ogd,kernel-ogd", "--gamma", "1", "--initial",
                              "60", "--block-rows", "8", "--order", "file"), "libsvm", libsvm),
        ("redrawn", "online", ("--input", str(rows), *small, "--learner", "ogd", "--initial", "60", "--block-rows", "8",
                               "--drift", "adwin", "--drift-delta", "0.9", "--on-drift", "redraw", "--redraw-rows",
                               "16", "--partitioner", "iforest"), "libsvm", libsvm),
        ("grown", "online", ("--input", str(table), "--task", "regression", "--label", "y", "--t", "4", "--lifetime",
                             "2", "--learner", "ogd", "--partitioner", "mondrian", "--initial", "60", "--block-rows",
                             "8"), "csv", csv),
        ("fed", "online", ("--input", str(_parts(folder, table)), "--format", "parquet", "--task", "regression",
                           "--label", "y", *small, "--learner", "ogd", "--initial", "60", "--block-rows", "8",
                           "--idle-seconds", "0.05"), "csv", csv),
    ]  # fmt: skip
    found = []
    with commands_in_this_process(), _small_chunks():
        for name, command, given, new, X in runs:
            if only and name not in only:
                continue
            given = (*given, "--no-dask-report")
            found += _runs_of(folder / name, name, command, given, few[new], X)
        paper = ("--table", "5,8", "--datasets", "clouds", "--systems", "ik_a_ogd,ik_i_ogd", "--dataset-file",
                  str(clouds), "--data-dir", str(clouds.parent), "--score-scale", "raw")  # fmt: skip
        if not only or "reproduce" in only:
            run("reproduce", *paper, "--run-dir", str(folder / "reproduce"))
            found.append(Stored("reproduce", folder / "reproduce", {"again": command_again("reproduce", *paper)}))
        if not only or "scores" in only:
            found.append(_parts_of_scores(folder / "scores", folder / "classes", few["libsvm"]))
        found = [one for one in found if not only or one.name in only]
        for stored in found:
            copy = folder / "work" / "run"
            stored.made = kept(stored.folder)
            for way, read_it in stored.ways.items():
                shutil.copytree(stored.folder, copy, symlinks=True)
                forget()
                stored.expected[way] = read_it(copy).value
                shutil.rmtree(copy.parent)
    return found


def _runs_of(folder: Path, name: str, command: str, words: tuple[str, ...], new: Path, X: Any) -> list[Stored]:
    """A run as it was after every second stage, and as it ended."""
    stopped: dict[str, Path] = {}
    with _copied_after_each_stage(folder, stopped):
        run(command, *words, "--run-dir", str(folder))
    again = command_again(command, *words)
    ways: dict[str, Read] = {}
    learners = read_json(folder / "metrics.json")["learners"]
    for k, learner in enumerate(learners):
        ways |= {f"score {learner}": scored(learner, new, (".parquet", ".csv")[k % 2])}
        ways |= {f"load {learner}": loaded((ikmap.load, load_run)[k % 2], learner, X)}
        if command == "online":
            ways |= {f"predictions {learner}": predictions_of(learner)}
    ways |= {"config": _by_config(command), "again": again}
    found = [Stored(name, folder, ways)]
    for when, copy in stopped.items():
        found.append(Stored(f"{name} after {when}", copy, {"resumed": again}))
    return found


@contextmanager
def _copied_after_each_stage(folder: Path, copies: dict[str, Path]) -> Iterator[None]:
    from pipeline.storage.rundir import RunDirectory

    finish = RunDirectory.finish_stage

    def finished(self: RunDirectory, name: str, *given: Any, **more: Any) -> None:
        if name == "stream":  # as its learners are at work: their checkpoints are there, and not all records
            copies["chunks"] = folder.with_name(f"{folder.name}-chunks")
            shutil.copytree(folder, copies["chunks"], symlinks=True)
            for record in (copies["chunks"] / "records" / "stream").glob("*-model.json"):
                record.unlink()
        finish(self, name, *given, **more)
        copies[name] = folder.with_name(f"{folder.name}-{name.replace(':', '-')}")
        shutil.copytree(folder, copies[name], symlinks=True)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RunDirectory, "finish_stage", finished)
        yield


def _parts_of_scores(folder: Path, model: Path, rows: Path) -> Stored:
    """The parts of the file that ``flows.score`` writes, damaged before they are joined."""
    folder.mkdir()
    (folder / "part.parquet").write_bytes(b"stands for the part of each fragment")

    def read_it(copy: Path) -> Result:
        stand_in = copy / "part.parquet"
        size = stand_in.stat().st_size if stand_in.exists() else -1
        whole = stand_in.exists() and stand_in.read_bytes() == (folder / "part.parquet").read_bytes()
        tries = iter([not whole])

        def damage(of: Mapping[str, Any]) -> None:
            if next(tries, False):
                part = Path(of["url"].removeprefix("file://"))
                at = (max(size, 0) * 7919) % part.stat().st_size
                part.unlink() if size < 0 else flip(part, 8 * at + at % 8)

        with counted(scoring.score_fragment, note=damage, end=True):
            output = copy.parent / "scores.parquet"
            _, said = run("score", "--model", str(model), "--input", str(rows), "--output", str(output))
        return Result(_table(output), bool(REPAIRS.search(said)))

    return Stored("scores", folder, {"part": read_it})


@contextmanager
def _small_chunks() -> Iterator[None]:
    with sizes_made_small() as sizes, pytest.MonkeyPatch.context() as patch:
        sizes.stream_chunks(8)
        patch.setenv("COLUMNS", "200")
        yield


def _parts(folder: Path, table: Path) -> Path:
    """The table as a directory to which files were added."""
    parts = folder / "parts"
    parts.mkdir()
    rows = pyarrow.csv.read_csv(table)
    for k in range(2):
        pq.write_table(rows.slice(k * 80, 80), parts / f"{k}.parquet")
    return parts


def _data(folder: Path) -> tuple[Path, Path, Path, Path, Path]:
    rng = np.random.default_rng(5)
    X = rng.random((160, 3)).round(3)
    y = (np.sin(6 * X[:, 0]) + X[:, 1]).round(3)
    table = folder / "numbers.csv"
    lines = [",".join(map(str, [*x, v])) for x, v in zip(X.tolist(), y.tolist(), strict=True)]
    table.write_text("\n".join(["a,b,c,y", *lines]) + "\n")
    mixed = folder / "mixed.csv"
    lines = [
        f"{('red', 'blue', 'green')[int(3 * a)]},{'' if c > 0.9 else b},{'uv'[int(2 * c)]},{'yes' if v > 0.8 else 'no'}"
        for (a, b, c), v in zip(X.tolist(), y.tolist(), strict=True)
    ]
    mixed.write_text("\n".join(["colour,size,letter,y", *lines]) + "\n")
    odd = folder / "odd.csv"
    odd.write_text("\n".join(["a,b,c", *(",".join(map(str, x)) for x in X.tolist())]) + "\n")
    clouds = folder / "data"
    clouds.mkdir()
    lines = [",".join(map(str, [*x, int(v > 0.8)])) for x, v in zip(X.tolist(), y.tolist(), strict=True)]
    (clouds / "clouds.csv").write_text("\n".join(lines) + "\n")
    (clouds / "sets.toml").write_text(
        '[dataset.clouds]\ntitle = "Clouds"\ntask = "binary"\nformat = "csv"\ntrain = "clouds.csv"\nlabel = -1\n'
        'header = false\nsplit = { rule = "shuffle", fraction = 0.75 }\n'
    )
    return write_rows(folder, 160), table, mixed, odd, clouds / "sets.toml"
