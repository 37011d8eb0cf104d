"""Runs on tables: the same bits however files are cut, resumed and scored; models take rows in any order of columns."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp

from flows.options.batch import BatchOptions
from flows.options.online import OnlineOptions
from flows.options.score import ScoreOptions
from pipeline.errors import InputError
from pipeline.rows.prepared import PreparedRows
from pipeline.runs.trained import load_run
from pipeline.sources import Sizes
from pipeline.storage.store import Store
from tests.support.kills import KilledAfter
from tests.support.one_process import Command, Heard, one_process, results, score_file
from tests.support.sizes import SmallSizes

pytestmark = pytest.mark.slow

N = 240


@pytest.fixture(autouse=True)
def _one_process() -> Iterator[None]:
    with one_process():
        yield


def table(seed: int = 0) -> pa.Table:
    rng = np.random.default_rng(seed)
    size, town = rng.normal(size=N), rng.integers(0, 40, N)
    late = 10 * size + town + rng.normal(size=N)
    start = datetime.datetime(2001, 1, 1)
    return pa.table(
        {
            "who": [f"r{k}" for k in range(N)],
            "size": [None if k % 9 == 4 else float(v) for k, v in enumerate(size)],
            "town": [None if k == 3 else f"t{k}" for k in town.tolist()],
            "colour": np.array(["red", "green", "blue"])[rng.integers(0, 3, N)],
            "when": [start + datetime.timedelta(hours=int(h)) for h in rng.integers(0, 4000, N)],
            "delay": np.round(late, 2),
        }
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("files") / "parts"
    folder.mkdir()
    pq.write_table(table().slice(0, 130), folder / "a.parquet", row_group_size=40)
    pq.write_table(table().slice(130).select(table().column_names[::-1]), folder / "b.parquet")
    return folder


def options(folder: Path, **more: Any) -> BatchOptions:
    common = {"label": "delay", "above": 15.0, "id": "who", "learner": ("svm",), "t": 7, "psi": 8, "C": 1.0}
    return BatchOptions(input=str(folder), **{**common, **more})


@pytest.fixture(scope="module")
def run(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory, heard = tmp_path_factory.mktemp("runs") / "run", Heard()
    with one_process():
        metrics = Command(options(folder)).run(directory, heard=heard)
    plan = {column["name"]: (column["kind"], column["encoding"]) for column in metrics["data"]["columns_plan"]}
    assert plan == {
        "size": ("number", "minmax"), "town": ("category", "target"), "colour": ("category", "target"),
        "when": ("time", "parts"),
    }  # fmt: skip
    assert any("label: 1 where delay is above 15, else 0" in line for line in heard.lines)
    assert any("column town: category, target (type string; " in line for line in heard.lines)
    return directory


def prepared(directory: Path) -> dict[str, Any]:
    """Features and targets, and what came of them: no layout of parts."""
    store = Store(directory / "store.zarr")
    found = {key: value for key, value in results(directory).items() if not key.startswith("data/")}
    for side in ("train", "test"):
        rows = PreparedRows(store, side)
        block = rows.read(0, rows.n_rows)
        found[side] = np.asarray(block.rows).tobytes(), block.y.tobytes()
    return found


def test_bits_depend_on_no_piece_and_no_block(run: Path, folder: Path, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("pipeline.stages.encode.TASK_ROWS", 50)
    Command(options(folder), Sizes(fragment=2000, block=700)).run(tmp_path / "cut")
    assert prepared(tmp_path / "cut") == prepared(run)


def test_words_beyond_the_limit_are_counted_only_where_an_encoding_is_asked_for(
    run: Path, folder: Path, tmp_path: Path, monkeypatch: Any
) -> None:
    """Each task sees fewer words than the limit, and all of them together more."""
    monkeypatch.setattr("pipeline.stages.encode.TASK_ROWS", 30)
    for module in ("ikmap.tables.statistics", "ikmap.tables.plan", "pipeline.stages.encode"):
        monkeypatch.setattr(f"{module}.MOST_LEVELS", 30)
    metrics = Command(options(folder), Sizes(fragment=2000, block=700)).run(tmp_path / "left-out")
    town = next(column for column in metrics["data"]["columns_plan"] if column["name"] == "town")
    assert town["encoding"] == "drop"
    assert "more than 30 different words in" in town["why"]
    plan = str(run / "columns-plan.toml")
    Command(options(folder, columns_plan=plan), Sizes(fragment=2000, block=700)).run(tmp_path / "asked-for")
    assert prepared(tmp_path / "asked-for") == prepared(run)


def test_a_number_stands_for_nothing_in_files_and_frames_of_any_kind(tmp_path: Path) -> None:
    """A model of CSV, of Parquet and of Parquet with categories predicts the same, whoever has read the cells."""
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(3)
    a, zips = rng.integers(0, 40, N), rng.integers(0, 5, N)
    gaps = rng.random(N) < 0.2
    frame = pandas.DataFrame(
        {
            "a": np.where(gaps, -999, a),
            "b": np.where(gaps[::-1], -999.0, rng.normal(size=N)),
            "zip": np.where(gaps, -999, zips),
            "y": np.where(gaps | (a > 20), "p", "n"),
        }
    )
    files = {"csv": tmp_path / "t.csv", "parquet": tmp_path / "t.parquet"}
    frame.to_csv(files["csv"], index=False)
    frame.to_parquet(files["parquet"])
    predictions = []
    for ending, path in files.items():
        wanted = options(path, label="y", above=None, id=None, missing=("-999",), category=("zip",))
        Command(wanted).run(tmp_path / ending)
        model = load_run(tmp_path / ending)
        predictions += [model.decision_function(rows) for rows in (frame, frame.astype({"a": float, "zip": object}))]
        for other, scored in files.items():
            out = tmp_path / f"{ending}-{other}.parquet"
            score_file(ScoreOptions(model=str(tmp_path / ending), input=str(scored), output=str(out)))
            predictions.append(np.array(pq.read_table(out)["score"]))
    for found in predictions[1:]:
        np.testing.assert_array_equal(found, predictions[0])


def test_a_csv_file_comes_to_the_same_in_one_piece_and_in_many(tmp_path: Path) -> None:
    """Names that are ids have line ends in quotes, and predictions of a file in many pieces are in its order."""
    rows = table().set_column(0, "who", pa.array([f'r{k}, "of\n{k % 7}' for k in range(N)]))
    pa.csv.write_csv(rows, tmp_path / "rows.csv")
    outcomes, predictions = [], []
    for name, size in (("one", 1 << 20), ("many", 1500)):
        sizes = Sizes(fragment=size, block=700)
        heard = Heard()
        metrics = Command(options(tmp_path / "rows.csv"), sizes).run(tmp_path / name, heard=heard)
        assert {stage["tasks"] > 5 for stage in metrics["stages"] if stage["name"] == "ingest"} == {name != "one"}
        outcomes.append(prepared(tmp_path / name))
        output = tmp_path / f"{name}.csv"
        words = ScoreOptions(model=str(tmp_path / name), input=str(tmp_path / "rows.csv"), output=str(output))
        score_file(words, sizes)
        predictions.append(output.read_bytes())
        assert pa.csv.read_csv(output, parse_options=pa.csv.ParseOptions(newlines_in_values=True))["who"] == rows["who"]
    assert outcomes[0] == outcomes[1]
    assert predictions[0] == predictions[1]


@pytest.mark.parametrize("after", [1, 3])
def test_a_run_that_is_killed_in_ingest_goes_on(after: int, run: Path, folder: Path, tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        Command(options(folder)).run(tmp_path / "run", heard=KilledAfter("ingest", after))
    Command(options(folder)).run(tmp_path / "run")
    assert results(tmp_path / "run") == results(run)


def test_the_plan_of_a_run_makes_it_again_and_can_be_changed(run: Path, folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "plan.toml"
    file.write_text((run / "columns-plan.toml").read_text())
    Command(options(folder, columns_plan=str(file))).run(tmp_path / "again")
    assert prepared(tmp_path / "again") == prepared(run)
    file.write_text('[colour]\nkind = "category"\nencoding = "onehot"\n\n[size]\nkind = "number"\nencoding = "drop"\n')
    metrics = Command(options(folder, columns_plan=str(file), drop=("when",))).run(tmp_path / "other")
    names = load_run(tmp_path / "other").get_feature_names_out().tolist()
    assert names == ["town (target)", "colour=blue", "colour=green", "colour=red"]
    assert metrics["data"]["columns"] == 4


def test_rows_are_scored_by_name_with_their_ids(run: Path, folder: Path, tmp_path: Path) -> None:
    turned = table().select(table().column_names[::-1]).append_column("more", pa.array(["?"] * N))
    pq.write_table(turned, tmp_path / "turned.parquet")
    pa.csv.write_csv(turned.drop_columns(["delay"]), tmp_path / "turned.csv")
    common: dict[str, Any] = {"model": str(run)}
    said = score_file(
        ScoreOptions(**common, input=str(tmp_path / "turned.parquet"), output=str(tmp_path / "a.parquet"))
    )
    assert said["rows_labelled"] == N
    first = pq.read_table(tmp_path / "a.parquet")
    assert first.column_names == ["row", "who", "prediction", "score", "label"]
    assert first["who"].to_pylist() == [f"r{k}" for k in range(N)]
    score_file(ScoreOptions(**common, input=str(tmp_path / "turned.csv"), output=str(tmp_path / "b.csv")))
    second = pa.csv.read_csv(tmp_path / "b.csv")
    assert second.column_names == ["row", "who", "prediction", "score"]
    np.testing.assert_allclose(second["score"].to_numpy(), first["score"].to_numpy(), rtol=1e-12)
    score_file(ScoreOptions(**common, input=str(folder), output=f"{tmp_path}/parts/"))
    third = pa.concat_tables([pq.read_table(path) for path in sorted((tmp_path / "parts").iterdir())])
    assert third["score"].to_pylist() == first["score"].to_pylist()
    with pytest.raises(InputError, match="is there already, expected a new or an empty folder"):
        score_file(ScoreOptions(**common, input=str(folder), output=f"{tmp_path}/parts/"))
    pq.write_table(turned.drop_columns(["town"]), tmp_path / "less.parquet")
    with pytest.raises(InputError, match=r"less\.parquet: found no column 'town', expected it as in the training data"):
        score_file(ScoreOptions(**common, input=str(tmp_path / "less.parquet")))
    model = load_run(run)
    assert model.predict(turned).tolist() == first["prediction"].to_pylist()
    assert model.decision_function(turned).tolist() == first["score"].to_pylist()
    assert model.feature_names_in_ == ["size", "town", "colour", "when"]
    with pytest.raises(ValueError, match="found no column 'town'"):
        model.predict(turned.drop_columns(["town"]))


def test_an_id_may_be_called_label_and_ids_have_one_type(tmp_path: Path) -> None:
    new = table().rename_columns(["label", *table().column_names[1:]])
    parts = tmp_path / "new"
    parts.mkdir()
    pq.write_table(new, parts / "a.parquet")
    Command(options(parts, id="label")).run(tmp_path / "run")
    score: dict[str, Any] = {"model": str(tmp_path / "run"), "output": str(tmp_path / "p.parquet")}
    pq.write_table(new.drop_columns(["delay"]), tmp_path / "unlabelled.parquet")
    score_file(ScoreOptions(**score, input=str(tmp_path / "unlabelled.parquet")))
    assert pq.read_table(tmp_path / "p.parquet")["label_id"].to_pylist() == new["label"].to_pylist()
    whole = pa.array(range(N))
    pq.write_table(new.set_column(0, "label", whole), parts / "A.parquet")
    with pytest.raises(InputError, match=r"a\.parquet: column 'label' \(--id\): found values of type string, expected"):
        score_file(ScoreOptions(**score, input=str(parts)))


def test_rows_of_a_report_carry_their_ids(run: Path, folder: Path, tmp_path: Path) -> None:
    metrics = json.loads((run / "metrics.json").read_text())
    worst = metrics["learners"]["svm"]["worst"]
    assert worst
    assert all(row["id"] == f"r{row['row']}" for row in worst)
    page = (run / "report.html").read_text()
    assert all(row["id"] in page for row in worst[:10])
    novel = options(folder, above=None, task="novelty", learner=("idk",), C=None, test_input=str(folder / "b.parquet"))
    metrics = Command(novel).run(tmp_path / "novel")
    rows = metrics["learners"]["idk"]["most_novel"]
    assert rows
    assert all(row["id"] == f"r{row['row'] + 130}" for row in rows)


def test_python_says_what_scoring_says(tmp_path: Path) -> None:
    """Probabilities too; words that stand for nothing do so in Arrow tables and lists; other columns are left alone."""
    rng = np.random.default_rng(2)
    size, town = rng.normal(size=N), rng.integers(0, 5, N)
    columns = {
        "size": np.round(size, 3).astype(str).tolist(),
        "town": ["-" if k % 7 == 2 else f"t{town[k]}" for k in range(N)],
        "open": np.where(town > 2, "yes", "no").tolist(),
        "y": np.where(size + town + rng.normal(size=N) > 2, "late", "early").tolist(),
    }
    lines = [",".join(columns), *(",".join(row) for row in zip(*columns.values(), strict=True))]
    (tmp_path / "t.csv").write_text("\n".join(lines) + "\n")
    common: dict[str, Any] = {"input": str(tmp_path / "t.csv"), "missing": ("-",), "t": 5, "psi": 8, "C": 1.0}
    Command(BatchOptions(**common, learner=("svm",), calibration="isotonic")).run(tmp_path / "run")
    score_file(
        ScoreOptions(model=str(tmp_path / "run"), input=str(tmp_path / "t.csv"), output=str(tmp_path / "o.parquet"))
    )
    scored, model = pq.read_table(tmp_path / "o.parquet"), load_run(tmp_path / "run")
    frame = pa.table(
        {"more": columns["open"], **{name: columns[name] for name in ("open", "town")},
         "size": np.array(columns["size"], dtype=float)}
    )  # fmt: skip
    found = model.predict_proba(frame)
    assert model.classes_.tolist() == ["early", "late"]
    assert found[:, 0].tolist() == scored["probability_early"].to_pylist()
    assert found[:, 1].tolist() == scored["probability_late"].to_pylist()
    assert model.predict(frame).tolist() == scored["prediction"].to_pylist()
    for towns in (columns["town"], [None if town == "-" else town for town in columns["town"]]):
        listed = [list(row) for row in zip(map(float, columns["size"]), towns, columns["open"], strict=True)]
        assert model.predict_proba(listed).tolist() == found.tolist()
    with pytest.raises(ValueError, match="found no column 'town', expected it as in the training data"):
        model.predict_proba(frame.drop_columns(["town"]))
    for package in ("pandas", "polars"):
        if find_spec(package):
            frames = import_module(package)
            assert model.predict_proba(frames.DataFrame(frame.to_pydict())).tolist() == found.tolist()


def test_numbers_without_missing_cells_stay_as_they_are(tmp_path: Path) -> None:
    """And a single missing cell makes a table of them, with the median in its place."""
    rng = np.random.default_rng(1)
    numbers = {"a": rng.normal(size=N), "b": rng.normal(size=N), "y": rng.integers(0, 2, N)}
    pq.write_table(pa.table(numbers), tmp_path / "plain.parquet")
    pq.write_table(pa.table({**numbers, "a": [None, *numbers["a"][1:]]}), tmp_path / "one.parquet")
    common: dict[str, Any] = {"learner": ("svm",), "t": 5, "psi": 4, "C": 1.0}
    metrics = Command(BatchOptions(input=str(tmp_path / "plain.parquet"), **common)).run(tmp_path / "plain")
    assert "columns_plan" not in metrics["data"]
    rows = PreparedRows(Store(tmp_path / "plain" / "store.zarr"), "train")
    kept = rows.numbers(0, rows.n_rows)
    np.testing.assert_array_equal(rows.read(0, rows.n_rows).rows, np.column_stack([numbers["a"], numbers["b"]])[kept])
    metrics = Command(BatchOptions(input=str(tmp_path / "one.parquet"), **common)).run(tmp_path / "one")
    assert {column["encoding"] for column in metrics["data"]["columns_plan"]} == {"minmax"}
    with pytest.raises(InputError, match=r"one\.parquet: row 1, column 'a': found a missing value, of which the train"):
        score_file(ScoreOptions(model=str(tmp_path / "plain"), input=str(tmp_path / "one.parquet")))
    encoded = BatchOptions(input=str(tmp_path / "plain.parquet"), **common, encode_numbers="minmax")
    Command(encoded).run(tmp_path / "encoded")
    score_file(ScoreOptions(model=str(tmp_path / "encoded"), input=str(tmp_path / "one.parquet")))


def test_new_rows_have_the_header_of_the_training_file_in_any_order(tmp_path: Path) -> None:
    """Also where all of its names are numbers, as those of frames without names."""
    rng = np.random.default_rng(1)
    X = rng.integers(0, 9, (N, 3))
    (tmp_path / "t.csv").write_text("0,1,2,label\n" + "".join(f"{a},{b},{c},{int(a > 4)}\n" for a, b, c in X))
    common: dict[str, Any] = {"learner": ("svm",), "t": 20, "psi": 8, "C": 1.0}
    Command(BatchOptions(input=str(tmp_path / "t.csv"), **common)).run(tmp_path / "run")
    (tmp_path / "named.csv").write_text("2,0,1\n" + "".join(f"{c},{a},{b}\n" for a, b, c in X))
    (tmp_path / "bare.csv").write_text("".join(f"{a},{b},{c}\n" for a, b, c in X))
    found = []
    for name in ("named", "bare"):
        output = str(tmp_path / f"{name}.parquet")
        score_file(ScoreOptions(model=str(tmp_path / "run"), input=str(tmp_path / f"{name}.csv"), output=output))
        found.append(pq.read_table(output)["score"].to_pylist())
    assert len(found[0]) == N
    assert found[0] == found[1]


def test_words_that_look_like_numbers_are_labels_of_new_rows_too(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    a = rng.normal(size=N).round(3)
    lines = "".join(f"{x},{y},{'02' if x > y else '01'}\n" for x, y in zip(a, a[::-1], strict=True))
    (tmp_path / "t.csv").write_text("a,b,month\n" + lines)
    words = {"input": str(tmp_path / "t.csv"), "label": "month", "category": ("month",), "learner": ("svm",)}
    Command(BatchOptions(**words, t=20, psi=8, C=1.0)).run(tmp_path / "run")
    found = score_file(
        ScoreOptions(model=str(tmp_path / "run"), input=str(tmp_path / "t.csv"), output=str(tmp_path / "p.parquet"))
    )
    assert found["rows_labelled"] == N
    assert set(pq.read_table(tmp_path / "p.parquet")["label"].to_pylist()) == {"01", "02"}


def test_rows_without_a_target_are_scored_whatever_the_type_of_the_column(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    numbers = {"a": rng.normal(size=N), "b": rng.normal(size=N)}
    pq.write_table(pa.table({**numbers, "y": numbers["a"]}), tmp_path / "t.parquet")
    Command(BatchOptions(input=str(tmp_path / "t.parquet"), learner=("ridge",), t=5, psi=4)).run(tmp_path / "run")
    score: dict[str, Any] = {"model": str(tmp_path / "run"), "output": str(tmp_path / "p.parquet")}
    pq.write_table(pa.table({**numbers, "y": pa.array([None] * N, pa.string())}), tmp_path / "none.parquet")
    score_file(ScoreOptions(**score, input=str(tmp_path / "none.parquet")))
    assert pq.read_table(tmp_path / "p.parquet").column_names == ["row", "prediction"]
    pq.write_table(pa.table({**numbers, "y": ["TBD"] * N}), tmp_path / "words.parquet")
    with pytest.raises(InputError, match="found target 'TBD', expected a finite number, or an empty cell where a row"):
        score_file(ScoreOptions(**score, input=str(tmp_path / "words.parquet")))


def test_regression_and_streams_on_tables(folder: Path, tmp_path: Path) -> None:
    words = options(folder, above=None, task="regression", learner=("ridge",))
    metrics = Command(words).run(tmp_path / "regression")
    assert metrics["learners"]["ridge"]["r2"] > 0.2
    online = OnlineOptions(
        input=str(folder / "a.parquet"), label="delay", above=15.0, t=5, psi=4, initial=60, block_rows=10
    )
    metrics = Command(online).run(tmp_path / "stream")
    plan = {column["name"]: column["encoding"] for column in metrics["data"]["columns_plan"]}
    assert plan["town"] == "count"  # no target of a later row tells anything of an earlier one


def test_many_words_make_sparse_rows_and_change_no_cell(folder: Path, tmp_path: Path, small_sizes: SmallSizes) -> None:
    """The same cells, predictions and scores as of dense rows."""
    words = options(folder, encode_categories="onehot", learner=("svm", "ogd"))
    Command(words).run(tmp_path / "sparse")
    rows = PreparedRows(Store(tmp_path / "sparse" / "store.zarr"), "train")
    assert rows.preparation.n_columns > 40
    assert not rows.preparation.dense
    assert sp.issparse(rows.read(0, 10).rows)
    small_sizes.dense_rows()
    Command(words).run(tmp_path / "dense")
    sparse, dense = (results(tmp_path / name) for name in ("sparse", "dense"))
    kinds = ("cells/", "predictions/", "models/")
    of = [{key: value for key, value in found.items() if key.startswith(kinds)} for found in (sparse, dense)]
    assert of[0]
    assert of[0] == of[1]
    models = [load_run(tmp_path / name) for name in ("sparse", "dense")]
    assert models[0].decision_function(table(1)).tolist() == models[1].decision_function(table(1)).tolist()
    score_file(ScoreOptions(model=str(tmp_path / "sparse"), input=str(folder), output=f"{tmp_path}/scores.parquet"))
    scores = pq.read_table(tmp_path / "scores.parquet")["score"].to_pylist()
    assert scores == models[1].decision_function(table()).tolist()
    Command(options(folder, encode_categories="onehot", scale="minmax")).run(tmp_path / "scaled")
    assert PreparedRows(Store(tmp_path / "scaled" / "store.zarr"), "train").preparation.dense
