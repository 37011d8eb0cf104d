"""Types across formats: booleans are the same in all of them, and labels come back as they were."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from itertools import product
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
A = np.round(np.random.default_rng(0).normal(size=N), 3)
OPEN = (np.arange(N) % 3 > 0) ^ (np.arange(N) % 7 == 0)
Y = OPEN ^ (np.arange(N) % 11 == 0)
COMMON: dict[str, Any] = {"learner": ("svm",), "t": 3, "psi": 4, "C": 1.0, "partitioner": "iforest"}


@pytest.fixture(autouse=True)
def _one_process() -> Iterator[None]:
    with one_process():
        yield


def write(table: pa.Table, path: Path) -> str:
    if path.suffix == ".parquet":
        pq.write_table(table, path)
    elif path.suffix == ".arrow":
        with pa.ipc.new_file(path, table.schema) as writer:
            writer.write_table(table)
    else:
        plain = [c.cast(c.type.value_type) if pa.types.is_dictionary(c.type) else c for c in table.columns]
        pa.csv.write_csv(pa.table(dict(zip(table.column_names, plain, strict=True))), path)
    return str(path)


def scored(run: Path, file: str) -> pa.Table:
    out = run.parent / "out.parquet"
    score_file(ScoreOptions(model=str(run), input=file, output=str(out)))
    return pq.read_table(out)


def truths(true: Any, false: Any, kind: pa.DataType | None = None) -> pa.Array:
    return pa.array([None if k % 13 == 5 else true if one else false for k, one in enumerate(OPEN.tolist())], kind)


FORMS = {
    "booleans.parquet": truths(True, False),
    "booleans.arrow": truths(True, False),
    "numbers.parquet": truths(1, 0),
    "words.parquet": truths("True", "False"),
    "codes.parquet": truths("true", "false").dictionary_encode(),
    "true.csv": truths("true", "false"),
    "True.csv": truths("True", "False"),
    "TRUE.csv": truths("TRUE", "FALSE"),
}


@pytest.mark.slow
@pytest.mark.parametrize("trained", ["booleans.parquet", "numbers.parquet", "True.csv"])
def test_a_column_of_booleans_is_the_same_in_every_format(trained: str, tmp_path: Path) -> None:
    def table(form: str) -> pa.Table:
        return pa.table({"a": A, "open": FORMS[form], "label": Y.astype(int)})

    Command(BatchOptions(input=write(table(trained), tmp_path / trained), **COMMON)).run(tmp_path / "run")
    expected = scored(tmp_path / "run", str(tmp_path / trained))["score"].to_pylist()
    assert len(set(expected)) > 2
    forms = [form for form in FORMS if form != "numbers.parquet" or trained != "True.csv"]
    for form in forms:
        if FORMS[form].type == pa.int64() and trained.endswith(".csv"):
            continue  # words are not numbers
        file = write(table(form), tmp_path / f"new-{form}")
        assert scored(tmp_path / "run", file)["score"].to_pylist() == expected, form
    numbers = write(pa.table({"a": A, "open": FORMS["numbers.parquet"], "label": Y.astype(int)}), tmp_path / "n.csv")
    if not trained.endswith(".csv"):
        assert scored(tmp_path / "run", numbers)["score"].to_pylist() == expected


@pytest.mark.slow
def test_booleans_of_parquet_are_true_and_false_anywhere_in_a_csv_file(tmp_path: Path) -> None:
    """The file that is scored shows no word where its kinds are found out."""
    table = pa.table({"a": A, "open": FORMS["booleans.parquet"], "label": Y.astype(int)})
    Command(BatchOptions(input=write(table, tmp_path / "t.parquet"), **COMMON)).run(tmp_path / "run")
    expected = scored(tmp_path / "run", str(tmp_path / "t.parquet"))["score"].to_pylist()
    head, _, rows = Path(write(table, tmp_path / "t.csv")).read_text().partition("\n")
    # Long numbers: a few thousand rows are more than what is looked at.
    (tmp_path / "late.csv").write_text(f"{head}\n" + f"0.5{'0' * 100},,1\n" * 4000 + rows)
    assert scored(tmp_path / "run", str(tmp_path / "late.csv"))["score"].to_pylist()[4000:] == expected


LABELS: dict[str, tuple[pa.Array, list[Any]]] = {
    "int": (pa.array(Y * 3 - 1), [-1, 2]),
    "uint8": (pa.array(Y * 3, pa.uint8()), [0, 3]),
    "float": (pa.array(np.where(Y, 3.5, -0.5)), [-0.5, 3.5]),
    "whole": (pa.array(np.where(Y, 3.0, 1.0)), [1, 3]),
    "decimal": (pa.array([Decimal("3.50") if one else Decimal("1.25") for one in Y]), [1.25, 3.5]),
    "bool": (pa.array(Y), ["false", "true"]),
    "text": (pa.array(np.where(Y, "yes", "no").tolist()), ["no", "yes"]),
    "codes": (pa.array(np.where(Y, "Ja, bitte", "nein").tolist()).dictionary_encode(), ["Ja, bitte", "nein"]),
    "True": (pa.array(np.where(Y, "True", "False").tolist()), ["False", "True"]),
    "large": (pa.array(Y.astype(np.int64) + 2**53 - 2), [2**53 - 2, 2**53 - 1]),
}


# Arrow files are read by what reads Parquet once their types are known, and text knows neither how many bits a whole
# number has nor whether words are in a dictionary.
@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "suffix"),
    [
        *product(LABELS, ("parquet",)),
        *product([kind for kind in LABELS if kind not in ("uint8", "text")], ("csv",)),
        *product(("decimal", "codes"), ("arrow",)),
    ],
)
def test_labels_come_back_as_they_were(kind: str, suffix: str, tmp_path: Path) -> None:
    labels, classes = LABELS[kind]
    file = write(pa.table({"a": A, "b": OPEN.astype(int), "label": labels}), tmp_path / f"t.{suffix}")
    metrics = Command(BatchOptions(input=file, **COMMON)).run(tmp_path / "run")
    assert metrics["data"]["classes"] == classes
    out = scored(tmp_path / "run", file)
    assert set(out["prediction"].to_pylist()) == set(classes)
    meant = [classes[k] for k in (np.where(Y, 0, 1) if kind == "codes" else Y.astype(int)).tolist()]
    assert out["label"].to_pylist() == meant
    if suffix != "csv":
        return
    score_file(ScoreOptions(model=str(tmp_path / "run"), input=file, output=str(tmp_path / "out.csv")))
    lines = (tmp_path / "out.csv").read_text().splitlines()
    assert {line.rpartition(",")[2].strip('"') for line in lines[1:]} <= {str(c).rpartition(",")[2] for c in classes}


@pytest.mark.parametrize("suffix", ["parquet", "arrow", "csv"])
def test_labels_that_float64_would_make_equal_are_refused(suffix: str, tmp_path: Path) -> None:
    file = write(pa.table({"a": A, "label": Y.astype(np.int64) + 2**60}), tmp_path / f"t.{suffix}")
    with pytest.raises(InputError, match=rf"found label {2**60}, a whole number beyond 2\^53"):
        Command(BatchOptions(input=file, **COMMON)).run(tmp_path / "run")


@pytest.mark.slow
@pytest.mark.parametrize("trained", ["bool", "True", "int"])
def test_labels_that_say_true_and_false_are_known_in_every_form(trained: str, tmp_path: Path) -> None:
    labels = {"bool": pa.array(Y), "True": LABELS["True"][0], "int": pa.array(Y.astype(int))}
    common = {"a": A, "b": OPEN.astype(int)}
    file = write(pa.table({**common, "label": labels[trained]}), tmp_path / "t.parquet")
    Command(BatchOptions(input=file, **COMMON)).run(tmp_path / "run")
    expected = scored(tmp_path / "run", file)["label"].to_pylist()
    assert len(set(expected)) == 2
    for kind, labels_of_kind in labels.items():
        for suffix in ("parquet", "csv"):
            new = write(pa.table({**common, "label": labels_of_kind}), tmp_path / f"{kind}.{suffix}")
            assert scored(tmp_path / "run", new)["label"].to_pylist() == expected, (kind, suffix)


@pytest.mark.slow
def test_files_whose_labels_are_booleans_and_numbers(tmp_path: Path) -> None:
    common = {"a": A, "b": OPEN.astype(int)}
    for first, second, classes in (("bool", "int", ["false", "true"]), ("int", "bool", [0, 1])):
        folder = tmp_path / first
        folder.mkdir()
        for name, kind in (("0.parquet", first), ("1.parquet", second)):
            write(pa.table({**common, "label": Y if kind == "bool" else Y.astype(int)}), folder / name)
        metrics = Command(BatchOptions(input=str(folder), **COMMON)).run(tmp_path / f"run-{first}")
        assert metrics["data"]["classes"] == classes
    write(pa.table({**common, "label": Y * 7}), tmp_path / "bool" / "1.parquet")
    with pytest.raises(
        InputError, match=r"1\.parquet: row 2, column 'label': found 7, expected true or false .the label"
    ):
        Command(BatchOptions(input=str(tmp_path / "bool"), **COMMON)).run(tmp_path / "bad")


def test_novelty_knows_the_anomaly_in_every_form(tmp_path: Path) -> None:
    common = {"a": A, "b": OPEN.astype(int)}
    novel = np.arange(N) % 9 == 0
    options: dict[str, Any] = {"task": "novelty", "learner": ("idk",), "t": 3, "psi": 4}
    file = write(pa.table({**common, "label": novel.astype(int)}), tmp_path / "t.parquet")
    Command(BatchOptions(input=file, **options)).run(tmp_path / "run")
    new = write(pa.table({**common, "label": novel}), tmp_path / "new.parquet")
    expected = scored(tmp_path / "run", file)["label"].to_pylist()
    assert expected == novel.tolist()
    assert scored(tmp_path / "run", new)["label"].to_pylist() == expected


@pytest.mark.slow
def test_large_whole_numbers_are_said_and_ids_are_exact(tmp_path: Path) -> None:
    columns = {"id": np.arange(N) + 2**60, "big": np.arange(N) * 7 + 2**60, "word": ["u", "v"] * (N // 2), "label": Y}
    for suffix in ("parquet", "csv"):
        file = write(pa.table(columns), tmp_path / f"t.{suffix}")
        metrics = Command(BatchOptions(input=file, id="id", **COMMON)).run(tmp_path / f"run-{suffix}")
        why = {column["name"]: column["why"] for column in metrics["data"]["columns_plan"]}
        assert "whole numbers beyond 2^53 are rounded" in why["big"]
        ids = [int(number) for number in scored(tmp_path / f"run-{suffix}", file)["id"].to_pylist()]
        assert ids == columns["id"].tolist()
