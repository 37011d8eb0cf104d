"""The run directory: one process at a time, whole files only, and no other run's results."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import stat
import subprocess
import sys
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

import pytest

from ikmap.methods import configured
from pipeline.errors import InputError
from pipeline.params import Params
from pipeline.storage.durable import read_json, replacing, sealed, write_json
from pipeline.storage.hold import Taken, _locked
from pipeline.storage.rundir import MANIFEST, MANIFEST_COPY, RunDirectory, read_manifest
from tests import ROOT
from tests.support.calls import counted

IDENTITY: dict[str, Any] = {"params": {"t": 5, "psi": "auto"}, "data": {"name": "x", "split": None}}


def make(path: Path, identity: dict[str, Any] = IDENTITY, *, fresh: bool = False) -> RunDirectory:
    """Open and let go."""
    run = RunDirectory(path, identity, fresh=fresh)
    run.close()
    return run


def used(path: Path) -> RunDirectory:
    """A run that has come some way."""
    run = make(path)
    run.finish_stage("ingest", {"seconds": 1.0}, {"rows": 3})  # type: ignore[typeddict-item]
    write_json(run.task_record("cells", "shard-1"), {"rows": 3})
    run.store.write_group("data", {}, {"mine": 1})
    return run


def test_a_new_directory_and_the_same_again(tmp_path: Path) -> None:
    first = make(tmp_path / "a" / "b")
    assert not first.resumed
    assert not first.finished
    assert first.manifest["identity"] == IDENTITY
    used(tmp_path / "a" / "b")
    again = make(tmp_path / "a" / "b")
    assert again.resumed
    assert again.manifest["id"] == first.manifest["id"]
    assert again.stage("ingest") == {"record": {"seconds": 1.0}, "result": {"rows": 3}}
    assert again.stage("cells") is None
    assert again.task_record("cells", "shard-1").exists()


def test_a_finished_run_of_an_earlier_version_with_numbers_that_stand_for_nothing_is_the_same_run(
    tmp_path: Path,
) -> None:
    """They stood for nothing in text alone then; a run that is not finished would go on otherwise."""
    before = {**IDENTITY, "data": {"table": {"missing": ["", "-999"]}}}
    now = {**IDENTITY, "data": {"table": {"missing": ["", "-999"], "missing_as_numbers": True}}}
    make(tmp_path / "run", before)
    with pytest.raises(InputError, match=r"holds another run: data.table.missing_as_numbers was None, now True; give"):
        make(tmp_path / "run", now)
    run = RunDirectory(tmp_path / "run", before)
    run.manifest["status"] = "finished"
    run.finish_stage("ingest", {"seconds": 1.0}, {"rows": 3})  # type: ignore[typeddict-item]
    run.close()
    assert make(tmp_path / "run", now).finished
    with pytest.raises(InputError, match="holds another run"):
        make(tmp_path / "run", {**now, "data": {"table": {"missing": ["-9"], "missing_as_numbers": True}}})


def test_a_directory_that_is_made_is_its_users_alone_and_one_that_is_there_keeps_its_mode(tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(0o750)
    mask = os.umask(0)
    try:
        make(tmp_path / "a" / "made")
        make(tmp_path / "shared")
    finally:
        os.umask(mask)
    assert stat.S_IMODE((tmp_path / "a" / "made").stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / "shared").stat().st_mode) == 0o750


def test_the_store_and_the_records_of_a_run_are_found_from_any_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Workers may have another one than the command, in which the directory was named."""
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    run = make(Path("runs/one"))
    assert run.path == Path("runs/one")
    sent = pickle.dumps(run.store)
    record = run.task_record("ingest", "0")
    monkeypatch.chdir(tmp_path / "elsewhere")
    write_json(record, {"rows": 3})
    pickle.loads(sent).write_group("data", {}, {"mine": 1})
    monkeypatch.chdir(tmp_path)
    assert run.store.need("data")["mine"] == 1
    assert run.records("ingest") == {"0": {"rows": 3}}
    assert list((tmp_path / "elsewhere").iterdir()) == []
    # Nothing in the directory says where it lies.
    Path("runs/one").rename("moved")
    moved = make(Path("moved"))
    assert moved.resumed
    assert moved.store.need("data")["mine"] == 1


def test_a_directory_that_is_to_be_new_is_none_that_is_there(tmp_path: Path) -> None:
    make(tmp_path / "run")
    before = contents(tmp_path)
    (tmp_path / "empty").mkdir()
    for name in ("run", "empty"):
        with pytest.raises(Taken, match="is there already, expected a new directory"):
            RunDirectory(tmp_path / name, IDENTITY, new=True)
    # Nor one that another process makes meanwhile, which keeps it.
    late = tmp_path / "late"
    with counted(_locked, lambda _: late.mkdir()), pytest.raises(Taken):
        RunDirectory(late, IDENTITY, new=True)
    assert contents(tmp_path) == before
    assert (tmp_path / "empty").is_dir()
    assert late.is_dir()
    RunDirectory(tmp_path / "a" / "b", IDENTITY, new=True).close()
    assert make(tmp_path / "a" / "b").resumed


def test_groups_that_only_a_stage_needed_are_deleted_when_it_is_done(tmp_path: Path) -> None:
    run = make(tmp_path)
    for name in ("parts/a", "parts/b", "model"):
        run.store.write_group(name, {}, {})
    run.finish_stage("train", {"seconds": 1.0}, {}, obsolete=["parts/a"])  # type: ignore[typeddict-item]
    assert [run.store.holds(name) for name in ("parts/a", "parts/b", "model")] == [False, True, True]
    run.store.write_group("parts/a", {}, {})  # as if the process had been killed before it deleted it
    again = make(tmp_path)
    again.delete_obsolete("train")
    assert [again.store.holds(name) for name in ("parts/a", "parts/b", "model")] == [False, True, True]


def at(run: RunDirectory, begin: float, last: float) -> None:
    """Let the session have begun, and its files have been written, at these times."""
    run.manifest["session"] = begin
    run.save()
    for file in (run.path / "manifest.json", *(run.path / "records").rglob("*")):
        os.utime(file, (last, last))


def test_the_seconds_of_sessions_that_were_stopped_are_counted_up_to_their_last_file(tmp_path: Path) -> None:
    used(tmp_path)
    first = make(tmp_path)
    first.begin_session(1.5)
    assert first.manifest["seconds"] == 0
    at(first, 1000.0, 1002.0)
    os.utime(tmp_path / "records" / "cells" / "shard-1.json", (1030.5, 1030.5))
    os.utime(tmp_path / ".lock", (9000.0, 9000.0))
    second = make(tmp_path)
    second.begin_session()
    assert second.manifest["seconds"] == 30.5
    at(second, 2000.0, 2000.0)  # stopped before it had done anything
    third = make(tmp_path)
    third.begin_session()
    assert third.manifest["seconds"] == 30.5
    third.end_session(7.25)
    third.save()
    fourth = make(tmp_path)
    fourth.begin_session(2.25)
    assert fourth.manifest["seconds"] == 37.75
    assert fourth.manifest["start_seconds"] == 3.75  # of all that came so far


def test_values_that_json_changes_are_no_difference(tmp_path: Path) -> None:
    identity = {"learners": ("svm", "ogd"), "sides": {1: "x"}}
    make(tmp_path, identity)
    assert make(tmp_path, identity).resumed


@pytest.mark.parametrize(
    ("now", "said"),
    [
        ({**IDENTITY, "params": {"t": 6, "psi": "auto"}}, "params.t was 5, now 6"),
        ({**IDENTITY, "params": {"t": 5, "psi": 64}}, "params.psi was 'auto', now 64"),
        ({**IDENTITY, "params": {"t": 5, "psi": "auto", "seed": 1}}, "params.seed was None, now 1"),
        ({**IDENTITY, "data": {"name": "x", "split": {"rule": "first"}}}, "data.split was None, now {'rule': 'first'}"),
        (
            {"params": {"t": 6, "psi": 1}, "data": IDENTITY["data"]},
            "params.t was 5, now 6; params.psi was 'auto', now 1",
        ),
    ],
)
def test_another_run_is_refused_and_every_difference_named(tmp_path: Path, now: dict[str, Any], said: str) -> None:
    used(tmp_path)
    with pytest.raises(InputError) as refused:
        make(tmp_path, now)
    assert f"holds another run: {said}; give the options that it was begun with, another --run-dir, or --fresh" in str(
        refused.value
    )
    assert make(tmp_path).stage("ingest") is not None


def test_a_run_of_another_version_is_refused_without_the_names_that_have_changed_since(tmp_path: Path) -> None:
    make(tmp_path, {**IDENTITY, "layout": 5}).close()
    with pytest.raises(InputError) as refused:
        make(tmp_path, {"params": {"methods": {}}, "layout": 6})
    assert str(refused.value) == (
        f"{tmp_path} was made by another version (found layout 5, expected 6); give another --run-dir, "
        "or --fresh to do it again"
    )


def test_an_option_that_is_new_since_refuses_no_run_and_one_that_differs_does(tmp_path: Path) -> None:
    """What a run of before did not know has the value that the option declares for it, or its default."""
    one, searched = configured("ogd", {"eta": 0.25})
    options = one.record(searched)
    now = {"params": {"methods": {"ogd": options}}}
    begun = {"params": {"methods": {"ogd": {name: value for name, value in options.items() if name != "average"}}}}
    make(tmp_path / "run", begun)
    assert make(tmp_path / "run", now).resumed
    with pytest.raises(InputError, match=r"params\.methods\.ogd\.average was False, now True"):
        make(tmp_path / "run", {"params": {"methods": {"ogd": {**options, "average": True}}}})
    # Nor does a new parameter of runs, whichever it is.
    for parameter in fields(Params):
        if parameter.default is not MISSING:
            value = list(parameter.default) if isinstance(parameter.default, tuple) else parameter.default
            assert make(tmp_path / "run", {"params": {**now["params"], parameter.name: value}}).resumed
    with pytest.raises(InputError, match=r"params\.importance was False, now True"):
        make(tmp_path / "run", {"params": {**now["params"], "importance": True}})
    of_another_package = {"params": {"methods": {"unknown": {"x": 1}}}}
    make(tmp_path / "other", of_another_package)
    assert make(tmp_path / "other", of_another_package).resumed


def test_fresh_leaves_nothing_of_the_old_run(tmp_path: Path) -> None:
    old = used(tmp_path)
    (tmp_path / "report.html").write_text("old")
    (tmp_path / "link").symlink_to(tmp_path.parent)
    run = make(tmp_path, {"other": 1}, fresh=True)
    assert not run.resumed
    assert run.manifest["id"] != old.manifest["id"]
    assert sorted(entry.name for entry in tmp_path.iterdir()) == [".lock", MANIFEST_COPY, MANIFEST, "store.zarr"]
    assert run.store.attributes("data") is None
    assert tmp_path.parent.exists()


@pytest.mark.parametrize("after", range(5))
def test_fresh_killed_at_any_moment_can_be_run_again(
    tmp_path: Path, after: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither refused as foreign, nor resumed with what was not removed yet."""
    used(tmp_path)
    (tmp_path / "metrics.json").write_text("{}")
    removed = 0

    def counted(remove: Any) -> Any:
        def wrapper(*args: Any, **options: Any) -> Any:
            nonlocal removed
            if removed == after:
                raise KeyboardInterrupt
            removed += 1
            return remove(*args, **options)

        return wrapper

    with monkeypatch.context() as patch:
        patch.setattr(shutil, "rmtree", counted(shutil.rmtree))
        patch.setattr(Path, "unlink", counted(Path.unlink))
        try:
            make(tmp_path, IDENTITY, fresh=True)
        except KeyboardInterrupt:
            assert removed == after
    run = make(tmp_path, IDENTITY)
    assert run.manifest["stages"] == {}
    assert not (tmp_path / "records").exists()
    assert not (tmp_path / "metrics.json").exists()
    assert run.store.attributes("data") is None


def test_killed_while_the_first_manifest_was_written(tmp_path: Path) -> None:
    (tmp_path / ".lock").touch()
    (tmp_path / f".{MANIFEST}.x7yz").write_text('{"schema')
    assert not make(tmp_path).resumed
    assert not list(tmp_path.glob(f".{MANIFEST}*"))


def test_a_directory_of_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("mine")
    for fresh in (False, True):
        with pytest.raises(InputError, match=r"found thesis.tex but no manifest.json"):
            make(tmp_path, fresh=fresh)
    assert (tmp_path / "thesis.tex").read_text() == "mine"


def test_a_file_is_no_directory(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(InputError, match="found a file, expected a directory"):
            make(path)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (json.dumps(sealed({"schema_version": 99})), "found version 99, expected 2"),
        ('{"schema_version": 1}', "found version 1, expected 2: the run was made by earlier software"),
    ],
)
def test_a_manifest_of_another_version(tmp_path: Path, text: str, said: str) -> None:
    make(tmp_path)
    (tmp_path / MANIFEST).write_text(text)
    with pytest.raises(InputError, match=said):
        make(tmp_path)
    assert not make(tmp_path, fresh=True).resumed


@pytest.mark.parametrize("text", ["{}", '{"schema_ver', "", "[]", json.dumps({"schema_version": 2}), None])
def test_a_damaged_manifest_loses_no_run(tmp_path: Path, text: str | None) -> None:
    before = used(tmp_path).manifest
    (tmp_path / MANIFEST).unlink() if text is None else (tmp_path / MANIFEST).write_text(text)
    again = make(tmp_path)
    assert again.manifest == before
    assert again.repaired.startswith(f"{tmp_path / MANIFEST} is damaged (")
    assert again.repaired.endswith("the run goes on from its copy")
    (tmp_path / MANIFEST).write_text(text or "x")
    (tmp_path / MANIFEST_COPY).write_text("")
    with pytest.raises(InputError, match=r"is damaged .*, and so is its copy; --fresh does the run again"):
        make(tmp_path)
    assert not make(tmp_path, fresh=True).resumed


def test_what_killed_writers_left_is_swept_and_nothing_else(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path, IDENTITY)
    left = run.path / "store.zarr" / "models" / "zarr.816ba1120b744230b70da12e0b8cc1c9.partial"
    left.parent.mkdir()
    left.write_text("{")
    record = run.task_record("cells", "0")
    with replacing(record) as file:
        file.write(b"{}")
        half_written = next(record.parent.iterdir())
        # The same file under a second name, which stays as a kill would leave it.
        kept = half_written.with_name(f".0.json.killed{half_written.suffix}")
        os.link(half_written, kept)
    there = set(run.path.rglob("*"))
    run.sweep()
    assert there - set(run.path.rglob("*")) == {left, kept}
    run.close()


def test_a_damaged_record_counts_as_none(tmp_path: Path) -> None:
    run = used(tmp_path)
    path = run.task_record("cells", "shard-1")
    assert run.records("cells") == {"shard-1": {"rows": 3}}
    path.write_text(path.read_text().replace("3", "2"))
    assert run.records("cells") == {"shard-1": None}
    path.write_text("")
    assert run.records("cells") == {"shard-1": None}


def test_reading_a_manifest_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"found no manifest.json"):
        read_manifest(tmp_path)


@pytest.mark.slow
def test_one_process_at_a_time(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from pipeline.storage.rundir import RunDirectory\n"
        "try: RunDirectory(Path(sys.argv[1]), {}).close()\n"
        "except Exception as error: sys.exit(str(error))"
    )
    words = [sys.executable, "-c", code, str(tmp_path)]
    held = RunDirectory(tmp_path, {})
    refused = subprocess.run(words, capture_output=True, text=True, cwd=ROOT)
    assert refused.stderr == f"{tmp_path}: another process is working on this run\n"
    held.close()
    assert subprocess.run(words, cwd=ROOT).returncode == 0


def test_a_refused_run_gives_the_lock_back(tmp_path: Path) -> None:
    make(tmp_path, {"a": 1})
    with pytest.raises(InputError, match="a was 1, now 2"):
        RunDirectory(tmp_path, {"a": 2})
    make(tmp_path, {"a": 1})


def test_json_is_replaced_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "x.json"
    write_json(path, {"a": 1})
    with pytest.raises(TypeError):
        write_json(path, {"a": [2] * 10_000, "b": object()})
    assert read_json(path) == {"a": 1}
    assert [entry.name for entry in path.parent.iterdir()] == ["x.json"]


def test_files_are_as_readable_as_the_users_others(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write_json(tmp_path / "x.json", {"a": 1})
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "x.json").stat().st_mode) == 0o640


def test_the_umask_of_the_process_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other threads may be making files."""
    masks: list[int] = []
    monkeypatch.setattr(os, "umask", masks.append)
    write_json(tmp_path / "x.json", {"a": 1})
    assert masks == []


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_run_that_is_refused_is_withdrawn_with_the_folders_that_were_made_for_it(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path / "runs" / "one", {})
    run.withdraw()
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "runs").mkdir()
    run = RunDirectory(tmp_path / "runs" / "one", {})
    run.withdraw()
    assert [*tmp_path.rglob("*")] == [tmp_path / "runs"]


def test_what_can_be_resumed_is_not_withdrawn(tmp_path: Path) -> None:
    """A stage that is done, a task where asked for, or a run from before."""
    for name, stages, kept, keep_tasks in (
        ("a", True, True, False),
        ("b", False, True, True),
        ("c", False, False, False),
    ):
        run = RunDirectory(tmp_path / name, {})
        record = run.task_record("ingest", "0")
        record.parent.mkdir(parents=True)
        record.write_text("{}")
        if stages:
            run.manifest["stages"]["ingest"] = {}  # type: ignore[typeddict-item]
        run.withdraw(keep_tasks=keep_tasks)
        run.close()
        assert (tmp_path / name / "manifest.json").exists() == kept
    before = contents(tmp_path / "b")
    again = RunDirectory(tmp_path / "b", {})
    again.withdraw()
    assert contents(tmp_path / "b") == before


def test_nothing_is_discarded_before_the_run_begins(tmp_path: Path) -> None:
    RunDirectory(tmp_path / "run", {"seed": 1}).close()
    before = contents(tmp_path)
    run = RunDirectory(tmp_path / "run", {"seed": 2}, fresh=True, begin=False)
    assert run.manifest["identity"] == {"seed": 2}
    run.close()
    assert contents(tmp_path) == before
    run = RunDirectory(tmp_path / "run", {"seed": 2}, fresh=True, begin=False)
    run.begin()
    run.close()
    assert read_manifest(tmp_path / "run")["identity"] == {"seed": 2}


def test_a_directory_of_something_else_stays_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "letter").write_text("Dear")
    with pytest.raises(InputError, match="not the directory of a run"):
        RunDirectory(tmp_path, {})
    assert contents(tmp_path) == {"letter": b"Dear"}
