"""The keys of a definition that say what is learned and how CSV is read: task, header, delimiter."""

from __future__ import annotations

import gzip
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from flows.options.batch import BatchOptions
from flows.runs.batch import find_data
from pipeline.errors import InputError
from pipeline.monitoring.events import QuietProgress
from pipeline.rows.prepared import PreparedRows
from pipeline.runs.batch import run_identity
from pipeline.runs.new_data import open_data
from pipeline.runs.trained_model import TrainedModel, open_run
from pipeline.sources import CsvFormat
from pipeline.sources.datasets.known import load_registry
from pipeline.sources.datasets.registry import ResolvedDataset, resolve
from pipeline.stages.ingest import ingest
from pipeline.stages.task import requested_word
from tests.support.narrow import entries
from tests.support.one_process import Command, Heard
from tests.support.opening import opened
from tests.support.params_for import params_for
from tests.support.runs import context

THREE = "1,0.5,a\n2,0.25,b\n3,0.125,c\n" * 5


def defined(folder: Path, text: str, rows: str = THREE, file: str = "rows.csv") -> ResolvedDataset:
    """A data set of a definition of its own."""
    (folder / file).write_text(rows)
    (folder / "my.toml").write_text(f"[dataset.mine]\ntrain = '{file}'\n{text}\n")
    return resolve(load_registry(folder / "my.toml", folder).find("mine"), folder)


# ---------------------------------------------------------------------------------------------------------- task


@pytest.mark.parametrize(
    ("task", "asked", "taken"),
    [
        ("auto", "auto", "auto"),
        ("binary", "auto", "binary"),
        ("multiclass", "auto", "multiclass"),
        ("binary", "multiclass", "multiclass"),
        ("regression", "multiclass", "multiclass"),
    ],
)
def test_the_task_is_that_of_the_definition_unless_one_is_asked_for(task: str, asked: str, taken: str) -> None:
    assert requested_word(params_for(task=asked), ResolvedDataset("mine", "rows.csv", task=task))[0] == taken


def test_a_definition_says_what_is_learned(tmp_path: Path) -> None:
    data = defined(tmp_path, "task = 'binary'")
    expected = r"rows\.csv: data set mine is defined with task = \"binary\": found 3 classes, expected two$"
    with pytest.raises(InputError, match=expected):
        ingest(context(tmp_path / "a", params_for()), data)
    with pytest.raises(InputError, match=r"rows\.csv: --task binary: found 3 classes, expected two$"):
        ingest(context(tmp_path / "b", params_for(task="binary")), data)
    found = entries(ingest(context(tmp_path / "c", params_for(task="multiclass")), data))
    assert found["classes"] == ["a", "b", "c"]


def test_many_numbers_are_classes_where_the_definition_says_so(tmp_path: Path) -> None:
    rows = "".join(f"{k},{k / 8}\n" for k in range(30))
    with pytest.raises(InputError, match=r"found 30 different labels such as 0\.125, expected classes"):
        ingest(context(tmp_path / "a", params_for()), defined(tmp_path, "", rows))
    found = entries(ingest(context(tmp_path / "b", params_for()), defined(tmp_path, "task = 'multiclass'", rows)))
    assert len(found["classes"]) == 30


def test_learners_of_another_task_than_the_data_set_s_are_refused_before_a_row_is_read(tmp_path: Path) -> None:
    data = defined(tmp_path, "task = 'regression'", "no table at all")
    expected = r"do not learn regression \(data set mine is defined with task = \"regression\"\); expected"
    with pytest.raises(InputError, match=expected):
        ingest(context(tmp_path / "a", params_for()), data)


# ---------------------------------------------------------------------------------------------------------- CSV


@pytest.mark.parametrize("compressed", [False, True])
def test_header_and_delimiter_are_those_of_the_definition(compressed: bool, tmp_path: Path) -> None:
    """A first line that looks like names is a row, one of numbers holds names, and columns end where it says."""
    rows = "1.5|2|y\n0.5|3|n\n" * 10
    data = defined(tmp_path, "header = false\ndelimiter = '|'\nformat = 'csv'", rows)
    if compressed:
        (tmp_path / "rows.csv.gz").write_bytes(gzip.compress(rows.encode()))
        (tmp_path / "rows.csv").unlink()
        data = resolve(load_registry(tmp_path / "my.toml", tmp_path).find("mine"), tmp_path)
    ctx = context(tmp_path / "run", params_for())
    found = entries(ingest(ctx, data))
    assert (found["rows_train"] + found["rows_test"], found["columns"], found["classes"]) == (20, 2, ["n", "y"])
    X = PreparedRows(ctx.store, "train").take(np.arange(found["rows_train"])).rows
    assert set(np.asarray(X)[:, 0]) == {0.5, 1.5}
    # By what its values look like, the label "y" would be the name of the label column.
    assert opened(data.train_url, label=2, csv=CsvFormat(None, "|")).column_names == ("1.5", "2")


def test_numbers_may_be_names(tmp_path: Path) -> None:
    data = defined(tmp_path, "header = true\nlabel = '2020'", "2019,2020\n1,0\n2,1\n")
    train, _ = data.sources
    assert train.column_names == ("2019",)
    (block,) = train.read(train.fragments()[0])
    assert block.y is not None
    assert block.y.tolist() == [0, 1]


def test_test_files_are_read_alike(tmp_path: Path) -> None:
    (tmp_path / "later.csv").write_text("1 2\n5 0\n")
    data = defined(tmp_path, "test = 'later.csv'\nheader = true\nlabel = '2'\ndelimiter = ' '", "1 2\n3 1\n")
    names = [source.column_names for source in data.sources if source is not None]
    assert names == [("1",), ("1",)]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("header = 'no'", "header = 'no', expected true or false"),
        ("delimiter = '::'", "delimiter = '::', expected one character that is in no number, name or quote"),
        ("delimiter = '1'", "delimiter = '1', expected one character"),
        ("delimiter = '.'", "delimiter = '.', expected one character"),
        ("delimiter = '\"'", "expected one character"),
        ('delimiter = "\\n"', "expected one character"),
        ("delimiter = 'é'", "expected one character"),
        ("format = 'parquet'\nheader = true", 'header = True is for CSV, found format = "parquet"'),
        ("format = 'libsvm'\ndelimiter = ';'", "delimiter = ';' is for CSV, found format = \"libsvm\""),
    ],
)
def test_what_cannot_be_is_refused_by_name(text: str, complaint: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as error:
        defined(tmp_path, text)
    message = str(error.value)
    assert message.startswith(f"{tmp_path / 'my.toml'}: data set 'mine': ")
    assert complaint in message
    assert "\n" not in message


def test_a_file_that_is_otherwise_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"rows\.csv: line 1: found no ';', the delimiter that is given, expected"):
        assert defined(tmp_path, "delimiter = ';'").sources
    data = defined(tmp_path, "header = true", "1 1:0.5\n", "rows.svm")
    expected = r'rows\.svm: read as libsvm, but data set mine is defined with header = True, .* give format = "csv"'
    with pytest.raises(InputError, match=expected):
        assert data.sources


def test_what_is_told_of_the_file_is_part_of_the_run(tmp_path: Path) -> None:
    """Of a definition that does not tell, the identity is what it was before there were such keys."""
    plain, told = defined(tmp_path, ""), defined(tmp_path, "header = false")
    before, now = (run_identity({}, data, [])["data"] for data in (plain, told))
    assert "header" not in before
    assert now == {**before, "header": False}
    (tmp_path / "my.toml").write_text("[dataset.mine]\ntrain = 'rows.csv'\nheader = false\n")
    found = find_data(
        BatchOptions(dataset="mine", dataset_file=str(tmp_path / "my.toml"), data_dir=str(tmp_path)), QuietProgress()
    )
    assert found.csv == {"header": False}


def test_new_rows_are_read_as_those_of_the_run(tmp_path: Path) -> None:
    rows = "1.5|2|y\n0.5|3|n\n" * 10
    defined(tmp_path, "header = false\ndelimiter = '|'\nformat = 'csv'", rows)
    files = {"dataset": "mine", "dataset_file": str(tmp_path / "my.toml"), "data_dir": str(tmp_path)}
    Command(BatchOptions(**files, learner=("svm",), C=1.0, t=3, psi=2)).run(tmp_path / "run")
    model = open_run(str(tmp_path / "run"))
    assert isinstance(model, TrainedModel)
    (tmp_path / "new.csv").write_text("7|8|y\n9|10|n\n")
    new = open_data(model, str(tmp_path / "new.csv"))
    (block,) = new.source.read(new.source.fragments()[0])
    np.testing.assert_array_equal(block.X, [[7, 8], [9, 10]])


# ---------------------------------------------------------------------------------------------------------- drop

NAMED = "a,leak,b,again,label\n" + "1.5,9,2,8,y\n0.5,7,3,6,n\n" * 10


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_dropped_columns_are_no_features(tmp_path: Path, kind: str) -> None:
    if kind == "parquet":
        table = pa.csv.read_csv(pa.py_buffer(NAMED.encode()))
        pq.write_table(table, tmp_path / "rows.parquet")
        (tmp_path / "my.toml").write_text("[dataset.mine]\ntrain = 'rows.parquet'\ndrop = ['leak', 'again']\n")
        data = resolve(load_registry(tmp_path / "my.toml", tmp_path).find("mine"), tmp_path)
    else:
        data = defined(tmp_path, "drop = ['leak', 'again']\nn_columns = 4", NAMED)
    ctx, heard = context(tmp_path / "run", params_for()), Heard()
    ingest(replace(ctx, events=heard), data)
    train = PreparedRows(ctx.store, "train")
    assert train.preparation.column_names == ["a", "b"]
    assert {tuple(row) for row in np.asarray(train.read(0, train.n_rows).rows)} == {(1.5, 2.0), (0.5, 3.0)}
    assert any("2 columns are left out" in line and "leak, again" in line for line in heard.lines)
    identity = run_identity({}, data, [])["data"]
    assert identity == {**run_identity({}, replace(data, drop=()), [])["data"], "drop": ["leak", "again"]}


def test_what_is_to_be_dropped_must_be_there_and_leave_something(tmp_path: Path) -> None:
    for drop, message in (
        ("['leak', 'lake']", r"rows\.csv: found no column 'lake', which is to be dropped, expected one of a, leak, b"),
        ("['a', 'b', 'leak', 'again']", "found no feature column that is not dropped"),
        ("'leak'", "expected a list of names of columns"),
    ):
        with pytest.raises(InputError, match=message):
            assert defined(tmp_path, f"drop = {drop}", NAMED).sources
    with pytest.raises(InputError, match="expected a table whose columns have names"):
        assert defined(tmp_path, "drop = ['a']", THREE).sources


def test_ctg_is_without_its_class() -> None:
    """The columns V26 to V35 are the class."""
    assert load_registry().find("ctg").drop == tuple(f"V{k}" for k in range(26, 36))
