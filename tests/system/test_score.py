"""Scoring: what is predicted, on what data, and what is left behind when it fails."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from distributed import Client, LocalCluster

import pipeline.rows.prepared
import pipeline.runs.trained_model
from cluster import ClusterHandle
from flows.cli import run_command
from flows.score import main, result_lines
from ikmap.learners.linear_model import decision_to_index
from ikmap.rows import as_dense
from pipeline import load_run
from pipeline.errors import InputError
from pipeline.monitoring.events import QuietProgress
from pipeline.running.stage import Context
from pipeline.runs.batch import run_batch
from pipeline.runs.metrics import Invocation
from pipeline.runs.new_data import open_data
from pipeline.runs.score import score
from pipeline.runs.score_output import Output
from pipeline.runs.trained_model import open_run
from pipeline.sources import Sizes
from pipeline.sources.datasets.registry import ResolvedDataset
from pipeline.storage.durable import read_json, write_json
from pipeline.storage.rundir import RunDirectory
from tests.support.narrow import present
from tests.support.params_for import params_for

COLUMNS = ("width", "height", "weight")


@dataclass(frozen=True)
class Trained:
    """A run and its test file."""

    path: Path
    test: Path
    metrics: Mapping[str, Any]


@pytest.fixture(scope="module")
def client(two_workers: ClusterHandle) -> Client:
    return two_workers.client


@pytest.fixture(scope="module")
def threads() -> Iterator[Client]:
    """A cluster in this process, so that what a test replaces is replaced for the tasks too."""
    with (
        LocalCluster(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None) as local,
        Client(local) as found,
    ):
        yield found


def points(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Three overlapping clouds in three dimensions, and the number of the cloud."""
    rng = np.random.default_rng(seed)
    cloud = rng.integers(0, 3, n)
    return rng.normal(size=(n, 3)) + 1.5 * np.eye(3)[cloud], cloud


def write_csv(
    path: Path, X: np.ndarray, label: np.ndarray | None, names: tuple[str, ...] | None = COLUMNS, as_named: str = "kind"
) -> Path:
    rows = [[repr(float(value)) for value in row] for row in X]
    if label is not None:
        rows = [[*row, str(value)] for row, value in zip(rows, label, strict=True)]
        names = None if names is None else (*names, as_named)
    header = [] if names is None else [",".join(names)]
    path.write_text("\n".join([*header, *map(",".join, rows)]) + "\n")
    return path


def write_libsvm(path: Path, X: np.ndarray, label: np.ndarray) -> Path:
    lines = [
        " ".join([str(y), *(f"{j}:{float(v)!r}" for j, v in enumerate(row, start=1))])
        for y, row in zip(label, X, strict=True)
    ]
    path.write_text("\n".join(lines) + "\n")
    return path


def train(
    client: Client, folder: Path, train_url: Path, test_url: Path, label: str | int | None = None, **params: Any
) -> Trained:
    asked = params_for(t=20, psi=8, learners=("svm", "ogd"), **params)
    data = ResolvedDataset("clouds", str(train_url), str(test_url), label=label)
    known = {"label": label, "sources": [source.identity() for source in data.sources if source]}
    directory = RunDirectory(folder, {"params": asked.as_json(), "data": known})
    invocation = Invocation("a command", "", {"kind": "local", "workers": 2, "threads": 2})
    metrics = run_batch(Context(client, directory, asked, QuietProgress()), data, invocation)
    directory.close()
    return Trained(folder, test_url, metrics)


@pytest.fixture(scope="module")
def table_run(client: Client, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """Two classes with names, in a table with named columns, scaled."""
    folder = tmp_path_factory.mktemp("table")
    (X, y), (Z, z) = points(300, 0), points(200, 1)
    kinds = np.array(["apple", "pear"])
    return train(
        client,
        folder / "run",
        write_csv(folder / "train.csv", X, kinds[y // 2]),
        write_csv(folder / "test.csv", Z, kinds[z // 2]),
        label="kind",
        scale="minmax",
    )


@pytest.fixture(scope="module")
def libsvm_run(client: Client, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """Three classes with numbers."""
    folder = tmp_path_factory.mktemp("libsvm")
    (X, y), (Z, z) = points(300, 2), points(500, 3)
    return train(
        client,
        folder / "run",
        write_libsvm(folder / "train.libsvm", X, y + 3),
        write_libsvm(folder / "test.libsvm", Z, z + 3),
    )


@pytest.fixture(scope="module")
def bare_run(client: Client, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """Two classes with fractional numbers, in a table without names, the label in its first column."""
    folder = tmp_path_factory.mktemp("bare")
    (X, y), (Z, z) = points(200, 4), points(60, 5)
    np.save(folder / "train.npy", np.column_stack([y // 2 + 0.5, X]))
    np.save(folder / "test.npy", np.column_stack([z // 2 + 0.5, Z]))
    return train(client, folder / "run", folder / "train.npy", folder / "test.npy", label=0)


def scored(
    client: Client,
    run: Trained,
    source: Path,
    target: Path | str,
    learner: str | None = None,
    label: str | None = None,
    sizes: Sizes = Sizes(),  # noqa: B008 - immutable
) -> dict[str, Any]:
    model = open_run(str(run.path), learner)
    data = open_data(model, str(source), label=label, sizes=sizes)
    with Output(str(target)) as output:
        return score(client, model, data, output, QuietProgress())


def test_nobody_else_reads_what_is_half_done(tmp_path: Path) -> None:
    mask = os.umask(0)
    try:
        with Output(str(tmp_path / "predictions.parquet")) as output:
            assert Path(output.folder).stat().st_mode & 0o777 == 0o700
    finally:
        os.umask(mask)


@pytest.mark.parametrize("learner", ["svm", "ogd"])
@pytest.mark.parametrize("name", ["table_run", "libsvm_run", "bare_run"])
def test_score_of_the_test_file_is_the_evaluation_of_the_run(
    request: pytest.FixtureRequest, client: Client, threads: Client, tmp_path: Path, name: str, learner: str
) -> None:
    """Whatever the cluster and however the file is cut; and the very same file comes out."""
    run: Trained = request.getfixturevalue(name)
    files = []
    cuts = [(client, Sizes()), (client, Sizes(4096, 1024)), (threads, Sizes(2048))]
    for number, (cluster, sizes) in enumerate(cuts):
        target = tmp_path / f"{number}.parquet"
        result = scored(cluster, run, run.test, target, learner, sizes=sizes)
        assert result["accuracy"] == run.metrics["learners"][learner]["accuracy"]
        assert result["rows"] == result["rows_labelled"] == run.metrics["data"]["rows_test"]
        files.append(target.read_bytes())
    assert files[1:] == files[:1] * 2
    table = pq.read_table(target)
    assert table["row"].to_pylist() == list(range(table.num_rows))
    confusion = np.zeros_like(run.metrics["learners"][learner]["confusion"])
    classes = run.metrics["data"]["classes"]
    for true, predicted in zip(table["label"].to_pylist(), table["prediction"].to_pylist(), strict=True):
        confusion[classes.index(true), classes.index(predicted)] += 1
    assert confusion.tolist() == run.metrics["learners"][learner]["confusion"]


@pytest.mark.parametrize(
    ("name", "kind"), [("table_run", pa.string()), ("libsvm_run", pa.int64()), ("bare_run", pa.float64())]
)
def test_columns_and_scores(
    request: pytest.FixtureRequest, client: Client, tmp_path: Path, name: str, kind: pa.DataType
) -> None:
    """The score is the decision value of the stored model, of the predicted class where there are several."""
    run: Trained = request.getfixturevalue(name)
    scored(client, run, run.test, tmp_path / "out.parquet")
    table = pq.read_table(tmp_path / "out.parquet")
    expected = [("row", pa.int64()), ("prediction", kind), ("score", pa.float64()), ("label", kind)]
    assert [(field.name, field.type) for field in table.schema] == expected

    model = open_run(str(run.path))
    partitions, linear = model.load()
    source = open_data(model, str(run.test)).source
    X = next(source.read(source.fragments()[0])).X
    scaling = pipeline.rows.prepared.load_scaling(model.store) if name == "table_run" else None
    decision = linear.decision_function(present(partitions).cells(model.preparation().features(X, scaling)))
    index = decision_to_index(decision)
    of_class = decision[:, 0] if decision.shape[1] == 1 else decision[np.arange(len(index)), index]
    assert table["score"].to_numpy().tolist() == of_class.tolist()
    assert table["prediction"].to_pylist() == [run.metrics["data"]["classes"][k] for k in index]
    if decision.shape[1] == 1:
        positive = [p == run.metrics["data"]["classes"][1] for p in table["prediction"].to_pylist()]
        assert positive == (table["score"].to_numpy() >= 0).tolist()


# --- the same in Python


@pytest.mark.parametrize("learner", ["svm", "ogd"])
@pytest.mark.parametrize("name", ["table_run", "libsvm_run", "bare_run"])
def test_a_loaded_run_predicts_what_scoring_writes(
    request: pytest.FixtureRequest, client: Client, tmp_path: Path, name: str, learner: str
) -> None:
    """Bit for bit, from dense and from sparse rows."""
    run: Trained = request.getfixturevalue(name)
    scored(client, run, run.test, tmp_path / "out.parquet", learner)
    table = pq.read_table(tmp_path / "out.parquet")
    source = open_data(open_run(str(run.path)), str(run.test)).source
    X = np.vstack([as_dense(block.X) for fragment in source.fragments() for block in source.read(fragment)])

    model = load_run(run.path, learner)
    assert (model.learner, model.n_features_in_) == (learner, 3)
    assert model.feature_names_in_ == (list(COLUMNS) if name == "table_run" else None)
    assert model.classes_.tolist() == run.metrics["data"]["classes"]
    for rows in (X, X.tolist(), sp.csr_array(X), sp.coo_matrix(X)):
        decision = model.decision_function(rows)
        assert decision.shape == ((len(X),) if len(model.classes_) == 2 else (len(X), len(model.classes_)))
        of_class = decision if decision.ndim == 1 else decision.max(axis=1)
        assert of_class.tolist() == table["score"].to_pylist()
        assert model.predict(rows).tolist() == table["prediction"].to_pylist()
    assert model.predict(X[:1]).tolist() == table["prediction"].to_pylist()[:1]
    assert model.predict(X[:0]).shape == (0,)


def test_a_loaded_run_is_of_the_first_learner_unless_told(libsvm_run: Trained) -> None:
    assert load_run(libsvm_run.path).learner == "svm"
    with pytest.raises(InputError, match=r"^kernel-ogd: not in this run, which has svm, ogd"):
        load_run(libsvm_run.path, "kernel-ogd")
    with pytest.raises(
        InputError, match=f"^{libsvm_run.path}/missing: no such directory, expected that of a finished run"
    ):
        load_run(libsvm_run.path / "missing")


class Frame:
    """What matters here of a data frame: names of columns, and values."""

    def __init__(self, values: np.ndarray, columns: Sequence[str]) -> None:
        self.values, self.columns = values, columns

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self.values, dtype, copy=copy)


def test_a_loaded_run_refuses_rows_that_are_not_of_its_columns(table_run: Trained, libsvm_run: Trained) -> None:
    model, X = load_run(table_run.path), points(5, 6)[0]
    assert model.predict(Frame(X, COLUMNS)).tolist() == model.predict(X).tolist()
    with pytest.raises(
        ValueError, match="found the columns weight, height, width, expected in this order width, height"
    ):
        model.predict(Frame(X[:, ::-1], COLUMNS[::-1]))
    for loaded in (model, load_run(libsvm_run.path)):
        for wrong in (X[:, :2], X[0], sp.csr_array(np.hstack([X, X]))):
            with pytest.raises(ValueError, match=r"found the shape \(.*\), expected \(n, 3\)"):
                loaded.predict(wrong)
        with pytest.raises(ValueError, match="row 2, column 1: found nan"):
            loaded.predict(np.where(np.arange(15).reshape(5, 3) == 7, np.nan, X))


def test_small_steps_do_not_matter(
    monkeypatch: pytest.MonkeyPatch, threads: Client, libsvm_run: Trained, tmp_path: Path
) -> None:
    scored(threads, libsvm_run, libsvm_run.test, tmp_path / "whole.parquet")
    monkeypatch.setattr(pipeline.runs.trained_model, "READ_BYTES", 1000)
    scored(threads, libsvm_run, libsvm_run.test, tmp_path / "steps.parquet")
    assert (tmp_path / "steps.parquet").read_bytes() == (tmp_path / "whole.parquet").read_bytes()


@pytest.mark.parametrize("names", [COLUMNS, None])
def test_table_without_labels(
    client: Client, table_run: Trained, tmp_path: Path, names: tuple[str, ...] | None
) -> None:
    Z, _ = points(200, 1)
    source = write_csv(tmp_path / "new.csv", Z, None, names)
    result = scored(client, table_run, source, tmp_path / "out.parquet")
    assert (result["rows"], result["rows_labelled"], result["accuracy"]) == (200, 0, None)
    table = pq.read_table(tmp_path / "out.parquet")
    assert table.column_names == ["row", "prediction", "score"]
    scored(client, table_run, table_run.test, tmp_path / "labelled.parquet")
    assert table.equals(pq.read_table(tmp_path / "labelled.parquet").drop_columns("label"))


def test_array_without_labels_where_the_run_knows_the_label_by_position(
    client: Client, bare_run: Trained, tmp_path: Path
) -> None:
    np.save(tmp_path / "new.npy", np.load(bare_run.test)[:, 1:])
    result = scored(client, bare_run, tmp_path / "new.npy", tmp_path / "out.parquet")
    assert (result["rows"], result["accuracy"]) == (60, None)
    scored(client, bare_run, bare_run.test, tmp_path / "labelled.parquet")
    found, expected = (pq.read_table(tmp_path / f"{name}.parquet")["score"] for name in ("out", "labelled"))
    assert found == expected


def test_rows_that_were_trained_on_are_said_to_be(client: Client, libsvm_run: Trained, tmp_path: Path) -> None:
    training, said = libsvm_run.test.with_name("train.libsvm"), Listener()
    moved = tmp_path / "moved.libsvm"
    moved.write_bytes(training.read_bytes())
    model = open_run(str(libsvm_run.path))
    for url, seen in ((training, True), (moved, True), (libsvm_run.test, False)):
        with Output(str(tmp_path / "p.parquet")) as output:
            found = score(client, model, open_data(model, str(url)), output, said)
        assert found["seen"] is seen
        assert ("rows that it was trained on" in "".join(result_lines(found))) is seen
    report = libsvm_run.path / "report.html"
    assert [line for line in said.lines if "warning" in line] == [
        f"warning: {url} is the file that the model was trained on, and rows that it has learned from look better "
        f"than new ones; for rows that were held out see {report}"
        for url in (training, moved)
    ]


class Listener(QuietProgress):
    """Keeps what is said."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def message(self, text: str) -> None:
        self.lines.append(text)


def test_unseen_labels_are_not_counted(client: Client, libsvm_run: Trained, tmp_path: Path) -> None:
    Z, z = points(50, 6)
    label = np.where(np.arange(50) % 5 == 0, 77, z + 3)
    result = scored(client, libsvm_run, write_libsvm(tmp_path / "new.libsvm", Z, label), tmp_path / "out.parquet")
    table = pq.read_table(tmp_path / "out.parquet").to_pydict()
    assert [value is None for value in table["label"]] == (label == 77).tolist()
    right = [p == y for p, y in zip(table["prediction"], label.tolist(), strict=True) if y != 77]
    assert (result["rows"], result["rows_labelled"], result["accuracy"]) == (50, 40, np.mean(right))
    nothing = write_libsvm(tmp_path / "zeros.libsvm", Z, np.zeros(50, dtype=int))
    assert scored(client, libsvm_run, nothing, tmp_path / "zeros.parquet")["accuracy"] is None
    assert pq.read_table(tmp_path / "zeros.parquet").column_names == ["row", "prediction", "score"]


def test_columns_are_found_by_name(client: Client, table_run: Trained, tmp_path: Path) -> None:
    Z, z = points(200, 1)
    kinds = np.array(["apple", "pear"])[z // 2]
    table = pa.table({"weight": Z[:, 2], "kind": kinds, "width": Z[:, 0], "height": Z[:, 1]})
    pq.write_table(table, tmp_path / "new.parquet")
    result = scored(client, table_run, tmp_path / "new.parquet", tmp_path / "out.parquet")
    assert result["accuracy"] == table_run.metrics["learners"]["svm"]["accuracy"]
    renamed = table.rename_columns(["weight", "sort", "width", "height"])
    pq.write_table(renamed, tmp_path / "renamed.parquet")
    again = scored(client, table_run, tmp_path / "renamed.parquet", tmp_path / "again.parquet", label="sort")
    assert again["accuracy"] == result["accuracy"]


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (("width", "height"), "found no column 'weight'"),
        (("width", "height", "wait"), "found no column 'weight'"),
        (("width", "height", "wait", "depth"), "found no column 'weight'"),
    ],
)
@pytest.mark.parametrize("labelled", [True, False])
def test_lacking_columns_are_refused(
    table_run: Trained, tmp_path: Path, names: tuple[str, ...], message: str, labelled: bool
) -> None:
    X = np.ones((2, len(names)))
    source = write_csv(tmp_path / "new.csv", X, np.array(["apple", "pear"]) if labelled else None, names)
    with pytest.raises(InputError, match=f"new.csv: {message}"):
        open_data(open_run(str(table_run.path)), str(source))


@pytest.mark.parametrize("labelled", [True, False])
def test_further_columns_are_ignored_and_named(
    client: Client, table_run: Trained, tmp_path: Path, labelled: bool
) -> None:
    rng = np.random.default_rng(0)
    X = rng.random((20, 3))
    y = np.array(["apple", "pear"] * 10) if labelled else None
    few = write_csv(tmp_path / "few.csv", X, y, ("width", "height", "weight"))
    more = write_csv(tmp_path / "more.csv", np.c_[X[:, 2], X, rng.random(20)][:, [1, 2, 4, 3]], y,
                     ("width", "height", "depth", "weight"))  # fmt: skip
    assert open_data(open_run(str(table_run.path)), str(few)).ignored == ()
    assert open_data(open_run(str(table_run.path)), str(more)).ignored == ("depth",)
    scored(client, table_run, few, tmp_path / "few.parquet")
    scored(client, table_run, more, tmp_path / "more.parquet")
    assert pq.read_table(tmp_path / "few.parquet").equals(pq.read_table(tmp_path / "more.parquet"))


def test_other_number_of_columns_is_refused(
    client: Client, libsvm_run: Trained, bare_run: Trained, tmp_path: Path
) -> None:
    wide = write_libsvm(tmp_path / "wide.libsvm", np.ones((1, 4)), np.array([3]))
    with pytest.raises(InputError, match="column 4, but the training data has 3 columns"):
        scored(client, libsvm_run, wide, tmp_path / "out.parquet")
    np.save(tmp_path / "wide.npy", np.ones((5, 6)))
    with pytest.raises(InputError, match="found 5 feature columns, but the training data has 3"):
        open_data(open_run(str(bare_run.path)), str(tmp_path / "wide.npy"))


def test_label_asked_for_must_be_there(table_run: Trained, tmp_path: Path) -> None:
    source = write_csv(tmp_path / "new.csv", np.ones((2, 3)), None)
    with pytest.raises(InputError, match="no label column 'colour'"):
        open_data(open_run(str(table_run.path)), str(source), label="colour")


def test_run_must_be_finished_and_have_the_learner(table_run: Trained, tmp_path: Path) -> None:
    assert open_run(str(table_run.path)).learner == "svm"
    with pytest.raises(InputError, match=r"--learner logistic: not in this run, which has svm, ogd"):
        open_run(str(table_run.path), "logistic")
    with pytest.raises(InputError, match="no such directory, expected that of a finished run"):
        open_run(str(tmp_path / "nowhere"))
    with pytest.raises(InputError, match=r"found no manifest.json"):
        open_run(str(tmp_path))
    manifest = read_json(table_run.path / "manifest.json")
    write_json(tmp_path / "manifest.json", {**manifest, "status": "unfinished"})
    with pytest.raises(InputError, match=r"found an unfinished run, .* --run-dir"):
        open_run(str(tmp_path))
    write_json(tmp_path / "manifest.json", manifest)
    with pytest.raises(InputError, match=r"store\.zarr/data is damaged \(found no complete group\); restore it"):
        open_run(str(tmp_path))


def test_failure_leaves_nothing_and_keeps_what_was_there(client: Client, libsvm_run: Trained, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    target = folder / "p.parquet"
    target.write_bytes(b"of an earlier run")
    Z, z = points(400, 7)
    source = write_libsvm(tmp_path / "new.libsvm", Z, z + 3)
    source.write_text(source.read_text() + "3 1:x\n")
    with pytest.raises(InputError, match=r"new.libsvm: line 401, column 5: found 'x'"):
        scored(client, libsvm_run, source, target, sizes=Sizes(2048))
    assert target.read_bytes() == b"of an earlier run"
    assert [path.name for path in folder.iterdir()] == ["p.parquet"]


def test_interruption_leaves_nothing(client: Client, libsvm_run: Trained, tmp_path: Path) -> None:
    class Interrupted(QuietProgress):
        seen: str = ""

        def task_done(self, name: str, record: Mapping[str, Any]) -> None:  # noqa: ARG002
            (parts,) = folder.iterdir()
            Interrupted.seen = parts.name
            raise KeyboardInterrupt

    folder = tmp_path / "out"
    folder.mkdir()
    model = open_run(str(libsvm_run.path))
    data = open_data(model, str(libsvm_run.test), sizes=Sizes(2048))
    with pytest.raises(KeyboardInterrupt), Output(str(folder / "p.parquet")) as output:
        score(client, model, data, output, Interrupted())
    assert Interrupted.seen.startswith(".p.parquet.parts-")
    assert list(folder.iterdir()) == []


def test_output_on_another_file_system(threads: Client, libsvm_run: Trained) -> None:
    from fsspec.implementations.memory import MemoryFileSystem

    scored(threads, libsvm_run, libsvm_run.test, "memory://bucket/deep/p.parquet", sizes=Sizes(4096))
    files = MemoryFileSystem()
    assert files.find("/bucket") == ["/bucket/deep/p.parquet"]
    with files.open("/bucket/deep/p.parquet") as stream:
        assert pq.read_table(stream).num_rows == 500
    files.rm("/bucket", recursive=True)


@pytest.mark.parametrize(
    ("output", "message"),
    [
        ("missing/p.parquet", "no such directory"),
        ("folder", "is a directory, expected a file"),
        ("-", "is no file, expected the name of one"),
        ("/dev/null", "is no file, expected the name of one"),
        ("nonsense://p.parquet", "cannot be written: Protocol not known: nonsense"),
        ("test.libsvm", "is the input, expected another file"),
    ],
)
def test_output_that_cannot_be(
    client: Client,
    libsvm_run: Trained,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    output: str,
    message: str,
) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "test.libsvm").write_bytes(libsvm_run.test.read_bytes())
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.iterdir())
    with pytest.raises(InputError, match=f"^--output {output}: {message}"):
        scored(client, libsvm_run, tmp_path / "test.libsvm", output)
    assert sorted(tmp_path.iterdir()) == before


@pytest.fixture
def without_prefect(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path / "prefect"))


@pytest.mark.usefixtures("without_prefect")
def test_command(libsvm_run: Trained, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "p.parquet"
    words = ["--model", str(libsvm_run.path), "--input", str(libsvm_run.test), "--output", str(target)]
    assert run_command(main, [*words, "--learner", "ogd", "--workers", "1"]) == 0
    out, err = capsys.readouterr()
    accuracy = libsvm_run.metrics["learners"]["ogd"]["accuracy"]
    lines = out.splitlines()
    assert lines[0].startswith("500 rows in ")
    assert lines[1:] == [
        f"accuracy {accuracy:.4f} on 500 rows with a known label",
        f"predictions of ogd: {target}",
    ]
    assert "score: done, 1/1 task, 500 rows" in err
    assert pq.read_table(target).num_rows == 500


@pytest.mark.usefixtures("without_prefect")
@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"--input": "missing.libsvm"}, "error: missing.libsvm: no such file\n"),
        ({"--model": "missing"}, "error: --model missing: no such directory, expected that of a finished run\n"),
        ({"--model": __file__}, f"error: --model {__file__}: found a file, expected the directory of a finished run\n"),
    ],
)
def test_command_says_what_is_wrong(
    libsvm_run: Trained, tmp_path: Path, capsys: pytest.CaptureFixture[str], changed: dict[str, str], message: str
) -> None:
    words = {"--model": str(libsvm_run.path), "--input": str(libsvm_run.test), "--output": str(tmp_path / "p")}
    assert run_command(main, [word for pair in (words | changed).items() for word in pair]) == 2
    out, err = capsys.readouterr()
    assert (out, err) == ("", message)  # before anything is started
    assert not (tmp_path / "p").exists()
