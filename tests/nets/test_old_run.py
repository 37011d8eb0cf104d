"""Unfinished runs of before go on, and come to what they would have come to; see ``old_run.py``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import chdir
from pathlib import Path
from typing import Any

import pytest

from flows.options.online import OnlineOptions
from flows.runs.batch import batch_params, find_data, identity, sources_of
from flows.runs.online import online_identity
from pipeline.errors import InputError
from pipeline.storage.durable import read_json, write_json
from pipeline.storage.rundir import MANIFEST, MANIFEST_COPY, RunDirectory
from tests.nets import declarations
from tests.nets.old_run import EXPECTED, ROWS, RUN, RUNS, outcome, small_runs, unpack
from tests.nets.records import differences, read
from tests.support.one_process import Command, Heard, results
from tests.support.papers import skip_without_learners

EXPECTED_OUTCOMES = read(EXPECTED)
FIRST = "psi auto"


@pytest.fixture(autouse=True)
def in_folder(tmp_path: Path) -> Iterator[None]:
    with chdir(tmp_path), small_runs():
        yield


def identity_now(command: Command) -> dict[str, Any]:
    """Return what the code of now says identifies a run."""
    options = command.options
    data = find_data(options, Heard())
    more = online_identity(options) if isinstance(options, OnlineOptions) else {}
    return {**identity(batch_params(options), data, sources_of(data)), **more}


def change(recorded: Mapping[str, Any]) -> None:
    """Write another manifest, and its copy."""
    for name in (MANIFEST, MANIFEST_COPY):
        write_json(Path(RUN, name), recorded)


def defaults() -> dict[str, dict[str, Any]]:
    """Return by method the default of each option, as it was recorded."""
    entries = [entry for key, entry in read(declarations.FILE).items() if key != "order"]
    return {
        entry["name"]: {key: option.get("default") for key, option in entry["options"].items()}
        for entry in entries
        if "name" in entry
    }


@pytest.mark.slow
@pytest.mark.parametrize("name", RUNS)
def test_an_unfinished_run_goes_on(name: str) -> None:
    """Stages that were finished are not done again, and the result is that of a run that was never interrupted."""
    skip_without_learners(RUNS[name].words)
    unpack(name)
    done = read_json(Path(RUN, MANIFEST))["stages"]
    written = {path: path.read_bytes() for stage in done for path in Path(RUN, "records", stage).glob("*.json")}
    heard, command = Heard(), RUNS[name].command()
    called = []

    def call(stage: str, work: Any) -> Any:
        called.append(stage)
        return work()

    metrics = command.run(Path(RUN), call, heard)
    assert called[0] == RUNS[name].stage
    assert called[0] not in done
    assert {line for line in heard.lines if line.endswith(": done before")} >= {
        f"{stage}: done before" for stage in done
    }
    assert set(called).isdisjoint(done)
    assert {path: path.read_bytes() for path in written} == written
    whole = Command(command.options).run(Path("whole"))
    assert results(Path(RUN)) == results(Path("whole"))
    assert outcome(metrics) == outcome(whole)
    assert differences(EXPECTED_OUTCOMES[name], outcome(metrics)) == []


@pytest.mark.parametrize("name", RUNS)
def test_a_run_is_still_identified_as_it_was(name: str) -> None:
    """The same command has the same identity, key by key, as it stands in the manifest."""
    skip_without_learners(RUNS[name].words)
    unpack(name)
    lines = differences(read_json(Path(RUN, MANIFEST))["identity"], identity_now(RUNS[name].command()))
    # Options that have come since then are not recorded, and have their defaults.
    newer = tuple(f".{option}: not recorded, now {default}" for option, default in declarations.newer_options().items())
    assert [line for line in lines if not line.endswith(newer)] == []


@pytest.mark.parametrize("name", RUNS)
def test_an_option_that_the_record_lacks_does_not_stop_it(name: str) -> None:
    """A run of a time when there was no such option had the default: each option is left out of the record in turn."""
    skip_without_learners(RUNS[name].words)
    unpack(name)
    command = RUNS[name].command()
    recorded, now = read_json(Path(RUN, MANIFEST)), identity_now(command)
    tried = 0
    for method, options in recorded["identity"]["params"]["methods"].items():
        for option in list(options):
            value, default = options[option], defaults()[method][option]
            del options[option]
            change(recorded)
            if value == default:
                RunDirectory(Path(RUN), now, begin=False).close()
                tried += 1
            else:  # it was given: without it, this is another run
                with pytest.raises(InputError, match=re.escape(f"{option} was {default!r}, now {value!r}")):
                    RunDirectory(Path(RUN), now, begin=False)
            options[option] = value
    assert tried > 0


@pytest.mark.slow
def test_a_run_goes_on_whose_record_lacks_an_option() -> None:
    unpack(FIRST)
    recorded = read_json(Path(RUN, MANIFEST))
    del recorded["identity"]["params"]["methods"]["logistic"]["class_weight"]
    del recorded["identity"]["params"]["methods"]["svm"]["loss"]
    change(recorded)
    metrics = RUNS[FIRST].command().run(Path(RUN))
    assert differences(EXPECTED_OUTCOMES[FIRST], outcome(metrics)) == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--svm.class-weight balanced", "params.methods.svm.class_weight was 'none', now 'balanced'"),
        ("--t 9", "params.methods.iforest.t was 8, now 9"),
        ("--iforest.max-depth none", "params.methods.iforest.max_depth was 'log2', now 'none'"),
        ("--seed 1", "params.seed was 0, now 1"),
    ],
)
def test_a_run_with_another_option_is_another_run(words: str, said: str) -> None:
    unpack(FIRST)
    run = RUNS[FIRST]
    argv = ["--input", ROWS, "--label", "kind", *run.words.split(), *words.split()]
    with pytest.raises(InputError) as refused:
        Command(run.program.parse(argv)).run(Path(RUN))
    assert said in str(refused.value)
