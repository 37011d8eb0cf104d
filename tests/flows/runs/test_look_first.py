"""What is not there is said before anything is started, and a refused command leaves nothing behind."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest

from cluster import address
from flows.cli import run_command
from flows.options.batch import BatchOptions
from flows.runs.look_first import known_data, look_at_data
from pipeline.errors import InputError
from pipeline.urls import Location
from tests.support.papers import with_papers


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory, and a data directory, that are empty."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("IKMAP_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path / "prefect"))
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    return tmp_path


@pytest.mark.parametrize(
    ("command", "words", "said"),
    [
        ("batch", "--input none.csv", "none.csv: no such file"),
        ("batch", "--input rows.csv --test-input none.csv", "none.csv: no such file"),
        ("batch", "--input rows.csv,none.csv", "none.csv: no such file"),
        ("batch", "--input none-*.csv", "none-*.csv: found no file of such a name"),
        ("batch", "--input rows.csv --columns-plan none.toml", "--columns-plan none.toml: cannot be read (No such"),
        (
            "batch",
            "--input rows.csv --columns-plan plan.toml",
            "--columns-plan plan.toml: a: found 1, expected a table",
        ),
        ("batch", "--dataset adlut", "unknown data set 'adlut': did you mean adult (a9a)?"),
        ("batch", "--dataset nothing-near", "unknown data set 'nothing-near': known: digits, "),
        ("batch", "--dataset a9a --dataset-file none.toml", "none.toml: cannot read the data set file (No such"),
        (
            "batch",
            "--dataset mine --dataset-file sets.toml",
            "mine: none.libsvm (or with .bz2, .xz, .gz, .zst) not found",
        ),
        ("batch", "--dataset digits --format csv", "--format csv: found the data set digits, whose format is known"),
        ("online", "--format csv", "--format csv: found the data set digits, whose format is known, expected --input;"),
        (
            "batch",
            "--dataset both --dataset-file sets.toml --test-size 0.3",
            "--test-size 0.3: found the data set both, which has a test set of its own; leave --test-size out",
        ),
        ("batch", "--dataset none/rows.csv", "unknown data set 'none/rows.csv': known: digits, "),
        ("online", "--input none.csv", "none.csv: no such file"),
        (
            "online",
            "--input rows.csv --idle-seconds 3",
            "--idle-seconds 3: found --input rows.csv, expected a directory",
        ),
        ("score", "--model none --input rows.csv", "--model none: no such directory, expected that of a finished run"),
        ("score", "--model . --input none.csv", "none.csv: no such file"),
        pytest.param(
            *("reproduce", "--table 5 --datasets adlut", "unknown data set 'adlut': did you mean adult (a9a)?"),
            marks=with_papers,
        ),
        pytest.param(
            *("reproduce", "--table 5 --systems none", "--systems: found 'none', expected some of "),
            marks=with_papers,
        ),
    ],
)
def test_what_is_not_there_is_said_at_once(
    command: str, words: str, said: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "rows.csv").write_text("a,b,label\n1,2,0\n2,1,1\n")
    (folder / "plan.toml").write_text("a = 1\n")
    (folder / "sets.toml").write_text(
        '[dataset.mine]\ntrain = "none.libsvm"\n[dataset.both]\ntrain = "rows.csv"\ntest = "rows.csv"\n'
    )
    before = sorted(folder.rglob("*"))
    assert run_command(import_module(f"flows.{command}").main, words.split()) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert err.startswith(f"error: {said}")
    assert sorted(folder.rglob("*")) == before


def test_a_file_or_url_for_a_data_set_is_taken_as_input(folder: Path) -> None:
    (folder / "rows.csv").write_text("a,b,label\n1,2,0\n2,1,1\n")
    for name, shown in (("rows.csv", "rows.csv"), ("https://host/rows.csv?sig=1", "https://host/rows.csv?...")):
        said: list[str] = []
        options = look_at_data(BatchOptions(dataset=name), said.append)
        assert isinstance(options.input, Location)
        assert (options.dataset, options.input, options.input.whole) == (None, shown, name)
        assert said == [f"--dataset {shown}: no data set of this name is known; taken as --input"]
        assert look_at_data(BatchOptions(dataset=name, format="csv", test_size=0.3), said.append).format == "csv"
    (folder / "digits").mkdir()
    assert look_at_data(BatchOptions(dataset="Digits"), said.append).dataset == "Digits"
    with pytest.raises(InputError, match="unknown data set 'none"):
        look_at_data(BatchOptions(dataset="none.csv"), said.append)


def test_a_file_of_data_sets_may_be_named_from_home(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(folder / "home"))
    (folder / "home").mkdir()
    (folder / "home" / "sets.toml").write_text('[dataset.mine]\ntrain = "rows.csv"\n')
    assert "mine" in known_data("~/sets.toml", folder)


@pytest.mark.parametrize("words", ["--cluster tcp://127.0.0.1:1", "--cluster tcp://127.0.0.1:1 --run-dir a/b/c"])
def test_a_refused_cluster_leaves_no_directory(
    words: str, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(address, "ANSWER_SECONDS", 0.3)
    (folder / "rows.csv").write_text("a,b,label\n1,2,0\n2,1,1\n")
    assert (
        run_command(import_module("flows.batch").main, ["--input", "rows.csv", "--test-size", "0.5", *words.split()])
        == 2
    )
    assert "no Dask scheduler answered" in capsys.readouterr().err
    assert [path.name for path in folder.iterdir()] == ["rows.csv"]
