"""Alerts of a stream: the rows found novel, each once, in order, whenever the run was killed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flows.options.online import OnlineOptions
from flows.runs.online import online_identity
from pipeline.errors import InputError
from pipeline.rows.permutation import position_in_shuffle
from pipeline.storage.durable import read_json
from pipeline.storage.rundir import RunDirectory
from pipeline.streams.alerts import MARK, OWN_FILE, STANDARD_OUTPUT, Alerts
from tests.support.kills import KilledWhen
from tests.support.metrics import check_metrics
from tests.support.one_process import Command, one_process
from tests.support.sizes import SmallSizes

N, INITIAL, BLOCK, WARM_UP = 400, 100, 15, 60


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    X = np.random.default_rng(1).normal(size=(N, 3)).round(3)
    X[7::23] += 9
    path: Path = tmp_path_factory.mktemp("rows") / "rows.csv"
    np.savetxt(path, X, delimiter=",", header="a,b,c", comments="", fmt="%g")
    return path


@pytest.fixture(autouse=True)
def _small_chunks(small_sizes: SmallSizes) -> None:
    small_sizes.stream_chunks(2)


def command(file: Path, alerts: Path | str | None, **more: Any) -> Command:
    asked = {"task": "novelty", "learner": ("idk",), "t": 20, "psi": 8, "initial": INITIAL, "block_rows": BLOCK}
    asked |= {"alert_rate": 0.1, "partitioner": "iforest", "alerts": None if alerts is None else str(alerts), **more}
    return Command(OnlineOptions(input=str(file), **asked))


def sent(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def timeless(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{key: value for key, value in line.items() if key != "time"} for line in lines]


@pytest.mark.slow
@pytest.mark.parametrize("order", ["file", "shuffled"])
def test_they_are_the_rows_found_novel_after_the_warm_up(file: Path, tmp_path: Path, order: str) -> None:
    with one_process():
        metrics = command(file, tmp_path / "to" / "a.jsonl", warm_up=WARM_UP, order=order).run(tmp_path / "run")
        check_metrics(tmp_path / "run")
    came = np.arange(N) if order == "file" else np.argsort(position_in_shuffle(np.arange(N), N, 0))
    novel = np.fromfile(tmp_path / "run" / "predictions" / "idk.int32", dtype=np.int32) > 0
    places = np.flatnonzero(novel)
    lines = sent(tmp_path / "to" / "a.jsonl")
    assert [line["row"] for line in lines] == came[INITIAL + places[places >= WARM_UP]].tolist()
    assert [line["block"] for line in lines] == (places[places >= WARM_UP] // BLOCK).tolist()
    assert all(line["score"] > 0 and 0 < line["threshold"] < 1 for line in lines)
    best = {one["row"]: one["score"] for one in metrics["learners"]["idk"]["most_novel"]}
    assert all(line["score"] == best.get(line["row"], line["score"]) for line in lines)
    about = metrics["online"]["alerts"]
    assert about["sent"] == {"idk": len(lines)}
    assert about["held_back"] == {"idk": int((places < WARM_UP).sum())}
    assert metrics["learners"]["idk"]["alerts"] == len(places)
    assert f"none of the first {WARM_UP} rows" in (tmp_path / "run" / "report.html").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("torn", ["torn", "ahead"])
def test_killed_and_resumed_none_is_lost_or_sent_twice(file: Path, tmp_path: Path, torn: str) -> None:
    to = tmp_path / "alerts.jsonl"
    with one_process():
        command(file, tmp_path / "whole.jsonl").run(tmp_path / "whole")
        last = tmp_path / "run" / "records" / "stream" / "idk-000005.json"
        with pytest.raises(KeyboardInterrupt):
            command(file, to).run(tmp_path / "run", heard=KilledWhen(last))
        text = to.read_bytes()
        assert 2 < text.count(b"\n") < len(sent(tmp_path / "whole.jsonl"))
        if torn == "torn":
            to.write_bytes(text + b'{"row": 3')
        else:  # the record of the last chunk got lost, after its alerts had been sent
            last.unlink()
        command(file, to).run(tmp_path / "run")
    assert timeless(sent(to)) == timeless(sent(tmp_path / "whole.jsonl"))
    assert to.read_bytes().startswith(text)
    runs = tmp_path / "run", tmp_path / "whole"
    assert len({(run / "predictions" / "idk.int32").read_bytes() for run in runs}) == 1


@pytest.mark.slow
def test_standard_output_gets_each_line_once(file: Path, tmp_path: Path, capfdbinary: Any) -> None:
    with one_process():
        command(file, "-").run(tmp_path / "run")
    lines = capfdbinary.readouterr().out
    assert lines
    assert lines == (tmp_path / "run" / OWN_FILE).read_bytes()


def test_a_file_with_something_in_it_is_refused(file: Path, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text("mine\n")
    with one_process(), pytest.raises(InputError, match=r"a.jsonl: found a file that is not empty, expected a new one"):
        command(file, tmp_path / "a.jsonl").run(tmp_path / "run")
    assert (tmp_path / "a.jsonl").read_text() == "mine\n"


def test_a_file_is_known_by_another_name_and_after_the_run_was_moved(tmp_path: Path) -> None:
    for path in (str(tmp_path / "a.jsonl"), STANDARD_OUTPUT):
        run = RunDirectory(tmp_path / "run", {})
        with Alerts(run, path, ["a"]) as alerts:
            alerts.path.write_text('{"row": 1, "learner": "a"}\n')
        run.close()
    (tmp_path / "run").rename(tmp_path / "moved")
    run = RunDirectory(tmp_path / "moved", {})
    with Alerts(run, STANDARD_OUTPUT, ["a"]) as alerts:
        assert alerts.path == tmp_path / "moved" / OWN_FILE
    with pytest.raises(InputError, match="found a file that is not empty"):
        Alerts(run, str(tmp_path / "a.jsonl"), ["a"])
    run.close()
    run = RunDirectory(tmp_path / "other", {})
    with Alerts(run, str(tmp_path / "b.jsonl"), ["a"]) as alerts:
        alerts.path.write_text('{"row": 1, "learner": "a"}\n')
    with Alerts(run, str(tmp_path / "other" / ".." / "b.jsonl"), ["a"]) as alerts:
        assert alerts.path == tmp_path / "b.jsonl"
    run.close()


def test_a_damaged_note_of_the_file_is_named_with_what_to_do(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path / "run", {})
    (tmp_path / "run" / MARK).write_text("{")
    file = tmp_path / "a.jsonl"
    file.write_text('{"row": 1, "learner": "a"}\n')
    with pytest.raises(InputError, match=r"alerts.json is damaged .it is not JSON., which says that .*a.jsonl .*move"):
        Alerts(run, str(file), ["a"])
    file.unlink()
    with Alerts(run, str(file), ["a"]):
        assert read_json(tmp_path / "run" / MARK) == {"file": str(file)}
    run.close()


def test_several_learners_wait_for_each_other(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path / "run", {})
    run.close()
    with Alerts(run, str(tmp_path / "a"), ["p", "q"]) as alerts:
        alerts.note("q", [(2, 12, 0.1, None, 0, "now"), (5, 15, 0.1, None, 1, "now")])
        alerts.send(0)
        assert not sent(tmp_path / "a")
        alerts.note("p", [(2, 12, 0.2, 0.5, 0, "now"), (3, 13, 0.2, 0.5, 0, "now")])
        alerts.send(4)
        assert [(line["row"], line["learner"]) for line in sent(tmp_path / "a")] == [(12, "p"), (12, "q"), (13, "p")]
        alerts.send(6)
    assert alerts.about()["sent"] == {"p": 2, "q": 2}
    whole = (tmp_path / "a").read_bytes()
    for cut in (0, 5, whole.find(b"\n") + 1):  # what a power cut took follows again
        (tmp_path / "a").write_bytes(whole[:cut])
        with Alerts(run, str(tmp_path / "a"), ["p", "q"]) as again:
            again.note("q", [(2, 12, 0.1, None, 0, "now"), (5, 15, 0.1, None, 1, "now")])
            again.note("p", [(2, 12, 0.2, 0.5, 0, "now"), (3, 13, 0.2, 0.5, 0, "now")])
            again.send(6)
        assert (tmp_path / "a").read_bytes() == whole
    again = Alerts(run, str(tmp_path / "a"), ["p", "q"])
    again.note("p", [(1, 11, 0.2, 0.5, 0, "now")])
    with again, pytest.raises(InputError, match="line 1 is of row 12 by p, expected row 11 by p"):
        again.send(4)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            {"learner": ("ogd",), "alerts": "a"},
            "--alerts a: found --learner ogd, which alerts of no rows, expected one",
        ),
        ({"learner": ("idk",), "warm_up": 5}, "--warm-up 5: found no --alerts, expected a file for them, or -"),
    ],
)
def test_options_that_make_no_sense_together(options: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        OnlineOptions(input="x.csv", **options)


def test_runs_of_before_there_were_alerts_are_resumed(file: Path) -> None:
    plain, alerting = command(file, None).options, command(file, "x").options
    assert online_identity(plain) == {"online": {"initial": INITIAL, "block_rows": BLOCK, "limit_seconds": None}}  # type: ignore[arg-type]
    assert online_identity(alerting)["online"]["alerts"] is True  # type: ignore[arg-type]
