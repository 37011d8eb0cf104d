"""New rows are not quite as those of training: labels, and columns that were empty, left out or divided by."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp

from flows.options.batch import BatchOptions
from flows.options.score import ScoreOptions
from pipeline import load_run
from pipeline.errors import InputError
from pipeline.rows.prepared import DATA
from pipeline.storage.store import Store
from tests.support.one_process import Command, one_process, score_file

pytestmark = pytest.mark.slow

N = 160


@pytest.fixture(autouse=True)
def _one_process() -> Iterator[None]:
    with one_process():
        yield


def table(seed: int = 0) -> pa.Table:
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=N), rng.normal(size=N)
    return pa.table({"id": np.arange(N), "a": a, "b": b, "y": (a > 0).astype(int)})


def trained(path: Path, rows: pa.Table, **more: Any) -> Path:
    if not (path / "rows.csv").exists():
        pa.csv.write_csv(rows, path / "rows.csv")
    given = {"learner": ("logistic",), "partitioner": "iforest", "t": 10, "psi": 16, "C": 1.0, "label": "y", **more}
    Command(BatchOptions(input=str(path / "rows.csv"), **given)).run(path / "run")
    return path / "run"


def scored(run: Path, new: pa.Table, path: Path) -> tuple[dict[str, Any], pa.Table]:
    pq.write_table(new, path / "new.parquet")
    (path / "out.parquet").unlink(missing_ok=True)
    said = score_file(ScoreOptions(model=str(run), input=str(path / "new.parquet"), output=str(path / "out.parquet")))
    return said, pq.read_table(path / "out.parquet")


def test_a_label_by_its_position_is_never_a_feature(tmp_path: Path) -> None:
    run, new = trained(tmp_path, table(), label="-1", drop=("id",)), table(1)
    said, _ = scored(run, new, tmp_path)
    assert said["rows_labelled"] == N
    said, out = scored(run, new.drop_columns(["y"]), tmp_path)
    assert said["rows_labelled"] == 0
    assert "label" not in out.column_names


def test_some_rows_may_lack_their_number(tmp_path: Path) -> None:
    rows = table()
    rows = rows.set_column(3, "y", pa.array(rows["a"].to_numpy() * 2))
    run = trained(tmp_path, rows, task="regression", learner=("ridge",), drop=("id",))
    y = [None if k % 5 == 0 else v for k, v in enumerate(rows["y"].to_pylist())]
    said, out = scored(run, rows.set_column(3, "y", pa.array(y)), tmp_path)
    assert said["rows_labelled"] == N - N // 5
    assert out["label"].null_count + int(np.isnan(out["label"].to_numpy()).sum()) >= N // 5
    none = pa.array([None] * N, pa.float64())
    assert scored(run, rows.set_column(3, "y", none), tmp_path)[0]["rows_labelled"] == 0


@pytest.mark.parametrize("name", [None, ""])
def test_the_index_of_a_frame_in_csv_has_no_name(name: str | None, tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    run = trained(tmp_path, table().rename_columns(["", "a", "b", "y"]), id=name)
    file = tmp_path / "rows.csv"
    _, out = scored_file(run, str(file))
    assert ("" in out.column_names) == (name == "")
    frame = pandas.read_csv(file)
    assert list(frame.columns) == ["Unnamed: 0", "a", "b", "y"]
    model = load_run(run)
    assert model.feature_names_in_ == [*([] if name == "" else [""]), "a", "b"]
    assert model.predict(frame).tolist() == out["prediction"].to_pylist()


def test_columns_that_the_model_left_out_may_be_lacking(tmp_path: Path) -> None:
    more = {"word": ["u", "v"] * (N // 2), "same": [7] * N, "note": [f"n{k}" for k in range(N)]}
    rows, new = (pa.table({**table(seed).drop_columns(["id"]).to_pydict(), **more}) for seed in (0, 1))
    run = trained(tmp_path, rows)
    _, expected = scored(run, new, tmp_path)
    less = new.drop_columns(["same", "note"])
    said, out = scored(run, less, tmp_path)
    assert out.equals(expected)
    assert said["rows_labelled"] == N
    pa.csv.write_csv(less, tmp_path / "less.csv")
    score_file(ScoreOptions(model=str(run), input=str(tmp_path / "less.csv"), output=str(tmp_path / "csv.parquet")))
    assert pq.read_table(tmp_path / "csv.parquet")["score"].equals(expected["score"])
    model = load_run(run)
    assert model.decision_function(less).tolist() == expected["score"].to_pylist()
    assert model.feature_names_in_ == ["a", "b", "word", "same", "note"]
    with pytest.raises(ValueError, match="found no column 'word', expected it as in the training data"):
        model.predict(less.drop_columns(["word"]))
    with pytest.raises(InputError, match=r"found no column 'b', expected it as in the training data"):
        scored(run, less.drop_columns(["b"]), tmp_path)


def test_labels_are_known_in_another_type(tmp_path: Path) -> None:
    rows = table()
    words = pa.array(np.where(rows["y"].to_numpy() > 0, "2", np.where(rows["b"].to_numpy() > 1, "3+", "1")))
    run = trained(tmp_path, rows.set_column(3, "y", words), drop=("id",))
    few = rows.set_column(3, "y", pa.array(rows["y"].to_numpy() + 1))
    assert scored(run, few, tmp_path)[0]["rows_labelled"] == N


def test_columns_that_were_left_out_may_hold_anything_or_lack(tmp_path: Path) -> None:
    rows = table().append_column("why", pa.array([""] * N)).append_column("group", pa.array([k % 7 for k in range(N)]))
    rows = rows.append_column("year", pa.array([2023] * N))
    run = trained(tmp_path, rows, split_by="group:group", drop=("id", "group"))
    new = table(1).append_column("why", pa.array(["weather"] * N)).append_column("year", pa.array(["MMXXIII"] * N))
    said, first = scored(run, new, tmp_path)
    assert said["rows_labelled"] == N
    said, second = scored(run, new.append_column("group", pa.array(["?"] * N)), tmp_path)
    assert second["score"].to_pylist() == first["score"].to_pylist()


def written(path: Path, rows: pa.Table, *, header: bool = True) -> str:
    pa.csv.write_csv(rows, path, pa.csv.WriteOptions(include_header=header))
    return str(path)


def scored_file(run: Path, new: str, **more: Any) -> tuple[dict[str, Any], pa.Table]:
    out = run.parent / "out.parquet"
    out.unlink(missing_ok=True)
    said = score_file(ScoreOptions(model=str(run), input=new, output=str(out), **more))
    return said, pq.read_table(out)


def test_a_file_without_names_has_its_label_where_it_is_said_or_known_to_be(tmp_path: Path) -> None:
    rows = table(1).rename_columns(["target", "a", "b", "c"])
    rows = rows.set_column(0, "target", table(1)["y"])
    run = trained(tmp_path, rows, label=None)
    _, named = scored_file(run, written(tmp_path / "named.csv", rows))
    new = written(tmp_path / "new.csv", rows, header=False)
    np.save(tmp_path / "new.npy", np.column_stack([rows[k].to_numpy() for k in range(4)]))
    for unnamed in (new, str(tmp_path / "new.npy")):
        with pytest.raises(InputError, match=r"found 4 columns without names, expected the 3 features.*--label 0"):
            scored_file(run, unnamed)
        said, out = scored_file(run, unnamed, label="0")
        assert said["rows_labelled"] == N
        assert out["score"].equals(named["score"])
    features = written(tmp_path / "features.csv", rows.drop_columns(["target"]), header=False)
    assert scored_file(run, features)[1]["score"].equals(named["score"])


def test_a_label_that_was_last_is_last_in_files_without_names(tmp_path: Path) -> None:
    rows = table(1).drop_columns(["id"])
    run = trained(tmp_path, rows, label=None)
    said, out = scored_file(run, written(tmp_path / "new.csv", rows, header=False))
    assert said["rows_labelled"] == N
    assert out["score"].equals(scored_file(run, str(tmp_path / "rows.csv"))[1]["score"])


def test_a_further_column_is_not_the_label_by_its_place(tmp_path: Path) -> None:
    rows = table().rename_columns(["when", "a", "b", "price"])
    later = rows.select(["a", "b", "price", "when"])
    run = trained(tmp_path, rows.drop_columns(["when"]), task="regression", learner=("ridge",), label="-1")
    said, out = scored_file(run, written(tmp_path / "new.csv", later))
    assert out["label"].to_pylist() == rows["price"].to_pylist()
    said, out = scored_file(run, written(tmp_path / "new.csv", later.drop_columns(["price"])))
    assert said["rows_labelled"] == 0


def test_no_other_column_is_the_label_where_that_of_training_lacks(tmp_path: Path) -> None:
    rows = table().rename_columns(["class", "a", "b", "target"])
    run = trained(tmp_path, rows, label=None, drop=("class",))
    said, _ = scored_file(run, written(tmp_path / "new.csv", rows.rename_columns(["class", "a", "b", "y"])))
    assert said["rows_labelled"] == 0


def test_a_model_of_an_encoded_table_takes_sparse_rows(tmp_path: Path) -> None:
    rows = table().drop_columns(["id"])
    X = np.column_stack([rows["a"].to_numpy(), rows["b"].to_numpy()])
    X[3, 1] = np.nan
    lines = zip(X.tolist(), rows["y"].to_pylist(), strict=True)
    (tmp_path / "rows.csv").write_text("".join(f"{a},{'' if b != b else b},{y}\n" for (a, b), y in lines))
    run = trained(tmp_path, rows, label=None)
    X[3, 1] = 0
    np.savetxt(tmp_path / "dense.csv", X, delimiter=",", fmt="%.17g")
    sp.save_npz(tmp_path / "new.npz", sp.csr_matrix(X))
    expected = scored_file(run, str(tmp_path / "dense.csv"))[1]["score"]
    assert scored_file(run, str(tmp_path / "new.npz"))[1]["score"].equals(expected)
    svm = tmp_path / "new.svm"
    svm.write_text("".join(f"1 1:{a} 2:{b}\n" for a, b in X.tolist()))
    assert scored_file(run, str(svm))[1]["score"].equals(expected)
    given = load_run(run)
    assert np.array_equal(given.decision_function(sp.csr_array(X)), given.decision_function(X))


def test_options_of_csv_text_are_for_csv_files_alone(tmp_path: Path) -> None:
    rows = table().drop_columns(["id"])
    (tmp_path / "rows.csv").write_text("".join(f"{a};{b};{y}\n" for a, b, y in zip(*rows.columns, strict=True)))
    run = trained(tmp_path, rows, header=("a", "b", "y"), delimiter=";")
    said, out = scored(run, rows, tmp_path)
    assert said["rows_labelled"] == N
    features = "".join(f"{a};{b}\n" for a, b, _ in zip(*rows.columns, strict=True))
    for name, text in (("new.csv", features), ("named.csv", f"a;b\n{features}")):
        (tmp_path / name).write_text(text)
        assert scored_file(run, str(tmp_path / name))[1]["score"].equals(out["score"])


def test_blocks_are_scored_in_slices_of_bounded_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = table()
    words = pa.array([None if k == 0 else "uv"[k % 2] for k in range(N)])
    rows = rows.append_column("w", words)
    run = trained(tmp_path, rows)
    expected, whole = scored(run, rows, tmp_path)
    monkeypatch.setattr("pipeline.runs.trained_model.READ_BYTES", 1000)
    monkeypatch.setattr("pipeline.runs.score.READ_BYTES", 1000)
    said, sliced = scored(run, rows, tmp_path)
    assert sliced.equals(whole)
    assert said["said"] == expected["said"]
    parts = ScoreOptions(model=str(run), input=str(tmp_path / "new.parquet"), output=f"{tmp_path / 'parts'}/")
    score_file(parts)
    assert pq.ParquetFile(tmp_path / "parts" / "part-000000.parquet").num_row_groups > 2


def test_a_missing_value_is_found_in_a_later_slice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = table().drop_columns(["id"])
    run = trained(tmp_path, rows)
    a = rows["a"].to_pylist()
    a[150] = None
    monkeypatch.setattr("pipeline.runs.trained_model.READ_BYTES", 1000)
    new = written(tmp_path / "new.csv", rows.set_column(0, "a", pa.array(a)))
    with pytest.raises(InputError, match="line 152, column 'a': found a missing value"):
        scored_file(run, new)


def test_an_older_run_has_the_place_of_its_label_for_files_without_names_alone(tmp_path: Path) -> None:
    rows = table().drop_columns(["id"])
    run = trained(tmp_path, rows, label="-1")
    store = Store(run / "store.zarr")
    described = dict(store.need(DATA))
    described["preparation"] = {k: v for k, v in described["preparation"].items() if not k.startswith("label")}
    store.set_attributes(DATA, described)
    assert scored_file(run, written(tmp_path / "named.csv", rows))[0]["rows_labelled"] == 0
    assert scored_file(run, str(tmp_path / "named.csv"), label="y")[0]["rows_labelled"] == N
    assert scored_file(run, written(tmp_path / "new.csv", rows, header=False))[0]["rows_labelled"] == N
