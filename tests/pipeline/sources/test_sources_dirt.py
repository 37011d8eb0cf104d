"""Tables with dirt: each is learned from and scored, or refused in one line that says where, what, and what to type."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from flows.options.batch import BatchOptions
from flows.options.score import ScoreOptions
from pipeline.errors import InputError
from tests.support.one_process import Command, one_process, score_file

N = 60
A = np.random.default_rng(0).normal(size=N)
Y = (np.arange(N) % 3 > 0).astype(int)
COMMON: dict[str, Any] = {"learner": ("svm",), "t": 3, "psi": 4, "C": 1.0, "partitioner": "iforest"}


@pytest.fixture(autouse=True)
def _one_process() -> Iterator[None]:
    with one_process():
        yield


def text(path: Path, head: str, row: Callable[[int], str]) -> Path:
    path.write_text("\n".join([head, *map(row, range(N))]) + "\n")
    return path


def run(file: Path, folder: Path, **options: Any) -> dict[str, Any]:
    return Command(BatchOptions(input=str(file), **{**COMMON, **options})).run(folder)


def goes_through(file: Path, tmp_path: Path, new: Path | None = None, **options: Any) -> pa.Table:
    run(file, tmp_path / "good", **options)
    out = tmp_path / "out.parquet"
    score_file(ScoreOptions(model=str(tmp_path / "good"), input=str(new or file), output=str(out)))
    return pq.read_table(out)


def refused(file: Path, tmp_path: Path, **options: Any) -> str:
    with pytest.raises(InputError) as error:
        run(file, tmp_path / "run", **options)
    assert "\n" not in str(error.value)
    return str(error.value).removeprefix(f"{tmp_path}/")


def test_odd_names_and_columns_without_a_value(tmp_path: Path) -> None:
    names = {"a b": A, " größe\t(cm)": A, "x\ny": [f"w{k % 3}" for k in range(N)], "": A, "🦆,": Y * 0 + 7,
             "null": pa.nulls(N), "label": Y}  # fmt: skip
    pq.write_table(pa.table(names), tmp_path / "t.parquet")
    assert goes_through(tmp_path / "t.parquet", tmp_path).num_rows == N


@pytest.mark.slow
@pytest.mark.parametrize(
    ("cell", "said"),
    [
        (
            "abc",
            "t.csv: line 7, column 'm': found 'abc', expected a number; if its cells are words, train with --category",
        ),
        ("inf", "t.csv: line 7, column 'm': found inf, expected a finite number"),
    ],
)
def test_a_fault_among_numbers(cell: str, said: str, tmp_path: Path) -> None:
    file = text(tmp_path / "t.csv", "m,label", lambda k: f"{cell if k == 5 else k},{Y[k]}")
    assert refused(file, tmp_path).startswith(said)
    assert goes_through(file, tmp_path, missing=(cell,)).num_rows == N


def test_times_of_the_day_are_times(tmp_path: Path) -> None:
    file = text(tmp_path / "t.csv", "at,label", lambda k: f"{k % 24}:{k:02d},{Y[k]}")
    metrics = run(file, tmp_path / "run")
    (column,) = metrics["data"]["columns_plan"]
    assert (column["kind"], column["encoding"]) == ("time", "parts")
    pq.write_table(pa.table({"at": [datetime.time(k % 24, k) for k in range(N)], "label": Y}), tmp_path / "t.parquet")
    outs = []
    for name in ("t.csv", "t.parquet"):
        out = tmp_path / f"{name}.out"
        score_file(ScoreOptions(model=str(tmp_path / "run"), input=str(tmp_path / name), output=str(out)))
        outs.append(pq.read_table(out)["score"].to_pylist())
    assert outs[0] == outs[1]


@pytest.mark.parametrize(
    ("label", "said"),
    [
        (lambda k: "" if k == 50 else f"{Y[k]}", "line 52, column 'label': found an empty cell or a word of --missing"),
        (lambda k: "NA" if k == 50 else ["no", "yes"][Y[k]],
         "line 52, column 'label': found 'NA', which stands for nothing (--missing), expected a label"),
        (lambda _: "1", "found one class only (1), expected at least two"),
        (lambda k: f"{2**60 + int(Y[k])}", f"found label {2**60}, a whole number beyond 2^53"),
    ],
)  # fmt: skip
def test_labels_that_are_none(label: Callable[[int], str], said: str, tmp_path: Path) -> None:
    file = text(tmp_path / "t.csv", "a,label", lambda k: f"{A[k]:.3f},{label(k)}")
    assert refused(file, tmp_path).startswith(f"t.csv: {said}")


def test_labels_of_no_such_type(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": A, "label": [[1]] * N}), tmp_path / "t.parquet")
    assert refused(tmp_path / "t.parquet", tmp_path) == (
        "t.parquet: column 'label' (the label): found values of type list<element: int64>, expected words, numbers or "
        "booleans"
    )
    pq.write_table(pa.table({"a": A, "label": [datetime.date(2001, 1, 1 + int(y)) for y in Y]}), tmp_path / "t.parquet")
    assert "found values of type date32[day], expected words, numbers or booleans" in refused(
        tmp_path / "t.parquet", tmp_path
    )


@pytest.mark.slow
@pytest.mark.parametrize("word", [False, True])
def test_new_rows_may_lack_their_label(word: bool, tmp_path: Path) -> None:
    shown = [("no", "yes")[y] if word else f"{y}" for y in Y]
    file = text(tmp_path / "t.csv", "a,b,label", lambda k: f"{A[k]:.3f},w{k % 3},{shown[k]}")
    new = text(
        tmp_path / "s.csv", "b,label,a", lambda k: f"new,{('', 'NA', 'other')[k] if k < 3 else shown[k]},{A[k]:.3f}"
    )
    if not word:
        new.write_text(new.read_text().replace("other", "7"))
    scored = goes_through(file, tmp_path, new)
    assert scored["label"].null_count == 3
    assert scored["label"].to_pylist()[3:] == [value if word else int(value) for value in shown[3:]]


def test_large_numbers_and_ids_that_stand_twice(tmp_path: Path) -> None:
    ids = pa.array([None if k == 1 else 2**60 + k // 2 for k in range(N)])
    pq.write_table(pa.table({"id": ids, "a": A, "big": np.arange(N) + 2**60, "label": Y}), tmp_path / "t.parquet")
    assert goes_through(tmp_path / "t.parquet", tmp_path, id="id")["id"].to_pylist() == ids.to_pylist()


def test_small_files(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,b,label\n1,2,x\n2,3,y\n3,4,x\n")
    assert refused(tmp_path / "t.csv", tmp_path).startswith(
        "t.csv: found 3 rows, expected enough to train and to test on"
    )
    (tmp_path / "t.csv").write_text("label\n1\n0\n")
    assert refused(tmp_path / "t.csv", tmp_path) == (
        "t.csv: found no feature columns beside the label, expected at least one"
    )


def test_folders_with_other_files_and_with_files_without_rows(tmp_path: Path) -> None:
    whole, root = pa.table({"a": A, "label": Y}), tmp_path / "all"
    for k, value in enumerate(("a%2Fb", "c=d", "__HIVE_DEFAULT_PARTITION__", "ü%20")):
        folder = root / f"k={value}"
        folder.mkdir(parents=True)
        pq.write_table(whole.slice(15 * k, 15), folder / "p.parquet")
        pq.write_table(whole.slice(0, 0), folder / "empty.parquet")
    (root / "README.md").write_text("a, read, me\n")
    (root / "_SUCCESS").touch()
    metrics = run(root, tmp_path / "run")
    assert metrics["data"]["rows_train"] + metrics["data"]["rows_test"] == N
    (column,) = [one for one in metrics["data"]["columns_plan"] if one["name"] == "k"]
    assert (column["kind"], "3 words" in column["why"]) == ("category", True)
    pq.write_table(whole.slice(0, 0), tmp_path / "t.parquet")
    assert refused(tmp_path / "t.parquet", tmp_path) == "t.parquet: found no rows, expected at least one"


@pytest.mark.parametrize("ending", ["xlsx", "avro", "zip"])
def test_files_of_other_programs(ending: str, tmp_path: Path) -> None:
    (tmp_path / f"t.{ending}").write_bytes(b"PK\x03\x04whatever")
    assert refused(tmp_path / f"t.{ending}", tmp_path).startswith(
        f"t.{ending}: found a .{ending} file by its name, expected CSV, Parquet, Arrow, ORC, JSON lines, ARFF, SQLite, "
        "LIBSVM text, NumPy or idx; "
    )
