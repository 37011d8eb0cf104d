"""The registry of data sets, and how their files are found."""

from __future__ import annotations

import bz2
import gzip
import itertools
import lzma
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from flows.options.batch import BatchOptions
from flows.runs.batch import find_data
from pipeline.errors import InputError
from pipeline.monitoring.events import QuietProgress
from pipeline.sources.datasets.known import EMBEDDED, default_data_dir, load_registry
from pipeline.sources.datasets.registry import resolve
from pipeline.sources.datasets.spec import DatasetSpec, Files, Split

# Isolation Kernel paper, Table 4: training rows, test rows, columns.
TABLE_4 = {
    "url": (30000, 2366130, 3231961),
    "news20.binary": (15997, 3999, 1355191),
    "rcv1.binary": (20242, 677399, 47236),
    "real-sim": (57848, 14461, 20958),
    "smallNORB": (24300, 24300, 18432),
    "cifar-10": (50000, 10000, 3072),
    "epsilon": (400000, 100000, 2000),
    "mnist": (60000, 10000, 780),
    "a9a": (32561, 16281, 123),
    "covertype": (464810, 116202, 54),
    "ijcnn1": (49990, 91701, 22),
}
REGISTRY = load_registry()
LINE = b"+1 1:0.5 3:1\n-1 2:0.25\n" * 50
COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    "": lambda data: data,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".gz": gzip.compress,
    ".zst": partial(pa.compress, codec="zstd", asbytes=True),
}
PACKED = {suffix: compress(LINE) for suffix, compress in COMPRESS.items()}


def one_line(error: pytest.ExceptionInfo[InputError]) -> str:
    text = str(error.value)
    assert len(text.splitlines()) == 1
    return text


# ---------------------------------------------------------------- what is registered


@pytest.mark.parametrize("name", TABLE_4)
def test_table_4(name: str) -> None:
    spec = REGISTRY.find(name)
    assert spec.name == name
    assert (spec.n_train, spec.n_test, spec.n_columns) == TABLE_4[name]
    assert (spec.task, spec.format) == ("binary", "libsvm")
    assert all(files.addresses(file) for files in spec.files for file in files.names)


SPLIT_HERE = [spec for spec in REGISTRY if not any(files.test for files in spec.files)]


@pytest.mark.parametrize("spec", SPLIT_HERE, ids=lambda spec: spec.name)
def test_split_gives_the_published_sizes(spec: DatasetSpec) -> None:
    assert spec.n_train is not None
    assert spec.n_test is not None
    assert spec.split.train_rows(spec.n_train + spec.n_test) == spec.n_train


@pytest.mark.parametrize(
    ("name", "positive", "negative"),
    [
        ("mnist", {3, 4, 6, 7, 9}, {0, 1, 2, 5, 8}),
        ("smallNORB", {1, 4}, {0, 2, 3}),
        ("cifar-10", {0, 2, 3, 4, 5}, {1, 6, 7, 8, 9}),
    ],
)
def test_two_class_sets_of_the_paper(name: str, positive: set[int], negative: set[int]) -> None:
    two_class = REGISTRY.find(name).two_class
    assert two_class is not None
    assert [set(side) for side in two_class] == [positive, negative]


@pytest.mark.parametrize(
    ("alias", "name"),
    [
        ("covtype.binary", "covertype"),
        ("covtype", "covertype"),
        ("norb", "smallNORB"),
        ("smallnorb", "smallNORB"),
        ("CIFAR10", "cifar-10"),
        ("rcv1", "rcv1.binary"),
        ("news20", "news20.binary"),
        ("A9A", "a9a"),
    ],
)
def test_aliases(alias: str, name: str) -> None:
    assert REGISTRY.find(alias).name == name


@pytest.mark.parametrize(
    ("wrong", "right"),
    [("a9b", "a9a"), ("covtyp", "covertype"), ("minst", "mnist"), ("new20.binary", "news20.binary")],
)
def test_unknown_name_suggests_the_nearest(wrong: str, right: str) -> None:
    with pytest.raises(InputError) as error:
        REGISTRY.find(wrong)
    assert f"unknown data set '{wrong}': did you mean" in one_line(error)
    assert right in str(error.value)


def test_unknown_name_near_to_none_lists_all() -> None:
    with pytest.raises(InputError) as error:
        REGISTRY.find("zzzzzz")
    assert all(spec.name in one_line(error) for spec in REGISTRY)


def test_embedded_data_set_needs_no_file(tmp_path: Path) -> None:
    found = resolve(REGISTRY.find(EMBEDDED), tmp_path / "none")
    rows = gzip.decompress(Path(found.train_url).read_bytes()).splitlines()
    assert len(rows) == found.split.train_rows(len(rows)) + 359 == 1797
    assert {row.count(b",") for row in rows} == {found.n_columns}
    assert {float(row.split(b",")[-1]) for row in rows} == set(range(10))
    assert max(float(value) for row in rows for value in row.split(b",")[:-1]) == found.divide
    assert (found.test_url, found.label, found.format) == (None, -1, "csv")
    assert not (tmp_path / "none").exists()


@pytest.mark.slow
@pytest.mark.data
@pytest.mark.parametrize(
    "name",
    ["a9a", "w8a", "covtype-93k", "usps", "sector", "electricity", "kddcup99", "cpu_act", "spambase", "ctg"],
)
def test_files_of_the_data_directory_are_as_registered(name: str, data_dir: Path) -> None:
    found = resolve(load_registry(data_dir=data_dir).find(name), data_dir)
    counts = []
    for url in filter(None, (found.train_url, found.test_url)):
        opener = bz2.open if url.endswith(".bz2") else gzip.open
        with opener(url) as stream:
            if found.format == "csv":
                columns = next(stream).decode().rstrip("\n").split("\t" if ".tsv" in url else ",")
                assert found.label in columns
                assert len(columns) - 1 == found.n_columns
                counts.append(sum(1 for line in stream))
            else:
                rows = [line for line in stream.read().splitlines() if line.strip()]
                counts.append(len(rows))
                largest = max(int(row.rsplit(None, 1)[-1].partition(b":")[0]) for row in rows if b":" in row)
                assert found.n_columns is not None
                assert largest <= found.n_columns
    if found.test_url is None:
        counts = [found.split.train_rows(counts[0]), counts[0] - found.split.train_rows(counts[0])]
    assert counts == [found.n_train, found.n_test]


# ---------------------------------------------------------------- splits


@pytest.mark.parametrize(
    ("split", "n_rows", "n_train"),
    [
        (Split(), 5, 4),
        (Split(), 6, 5),
        (Split(fraction=0.7), 10, 7),  # 0.7 * 10 = 7.000000000000001 in some orders of evaluation
        (Split(fraction=0.55), 100, 55),  # 0.55 * 100 > 55 in floating point
        (Split(fraction=0.5), 3, 2),
        (Split("first", n_train=3), 10, 3),
    ],
)
def test_training_rows(split: Split, n_rows: int, n_train: int) -> None:
    assert split.train_rows(n_rows) == n_train


@pytest.mark.parametrize(("split", "n_rows"), [(Split(), 1), (Split(), 0), (Split(n_train=10), 10)])
def test_split_that_leaves_nothing_is_refused(split: Split, n_rows: int) -> None:
    with pytest.raises(InputError, match=f"found {n_rows} rows"):
        split.train_rows(n_rows)


# ---------------------------------------------------------------- finding files


VARIANTS = [(spec, files, suffix) for spec in REGISTRY for files, suffix in itertools.product(spec.files, COMPRESS)]


@pytest.mark.parametrize(
    ("spec", "files", "suffix"),
    VARIANTS,
    ids=[f"{spec.name}:{files.train}{suffix}" for spec, files, suffix in VARIANTS],
)
def test_files_are_found_under_every_accepted_name(
    spec: DatasetSpec, files: Files, suffix: str, tmp_path: Path
) -> None:
    for name in files.names:
        (tmp_path / (name + suffix)).write_bytes(PACKED[suffix])
    found = resolve(spec, tmp_path)
    assert found.train_url == str(tmp_path / (files.train + suffix))
    assert found.test_url == (str(tmp_path / (files.test + suffix)) if files.test else None)
    assert (found.name, found.n_columns, found.divide) == (spec.name, spec.n_columns, files.divide)


def test_an_ending_in_capitals_is_one_of_compression(tmp_path: Path) -> None:
    (tmp_path / "my.toml").write_text("[dataset.x]\ntrain = 'X.CSV.GZ'\n")
    spec = load_registry(tmp_path / "my.toml").find("x")
    (tmp_path / "X.CSV.GZ").write_bytes(gzip.compress(b"a,b\n1,2\n"))
    assert resolve(spec, tmp_path).train_url == str(tmp_path / "X.CSV.GZ")
    (tmp_path / "X.CSV.zst").write_bytes(COMPRESS[".zst"](b"a,b\n1,2\n"))
    assert resolve(spec, tmp_path).train_url == str(tmp_path / "X.CSV.zst")


def test_scaled_files_are_not_divided_again(tmp_path: Path) -> None:
    spec = REGISTRY.find("mnist")
    for name in ("mnist", "mnist.t"):
        (tmp_path / name).write_bytes(LINE)
    assert resolve(spec, tmp_path).divide == 255
    for name in ("mnist.scale", "mnist.scale.t"):
        (tmp_path / name).write_bytes(LINE)
    assert resolve(spec, tmp_path).divide == 1
    assert REGISTRY.find("cifar-10").files[0].divide == REGISTRY.find("smallNORB").files[0].divide == 255


def test_a_complete_variant_goes_before_an_incomplete_one(tmp_path: Path) -> None:
    for name in ("mnist.scale", "mnist", "mnist.t"):
        (tmp_path / name).write_bytes(LINE)
    assert resolve(REGISTRY.find("mnist"), tmp_path).train_url == str(tmp_path / "mnist")


def test_a_directory_of_that_name_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "covtype-93k").mkdir()
    with pytest.raises(InputError) as error:
        resolve(REGISTRY.find("covtype-93k"), tmp_path)
    text = one_line(error)
    assert "covtype-93k and covtype-93k.t" in text
    assert str(tmp_path) in text


def test_default_data_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("IKMAP_DATA_DIR", str(tmp_path / "mine"))
    assert default_data_dir() == tmp_path / "mine"
    monkeypatch.delenv("IKMAP_DATA_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert default_data_dir() == tmp_path / "cache" / "ikmap"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr("sys.platform", "linux")
    assert default_data_dir() == tmp_path / ".cache" / "ikmap"


# ---------------------------------------------------------------- a user's own


OWN = """
[dataset.clicks]
aliases = ["ads"]
train = "clicks.csv"
test = "later.csv"
label = "clicked"
delimiter = ";"
two_class = [["yes"], ["no", "maybe"]]
split = { rule = "first", fraction = 0.9 }
"""


def test_own_data_sets(tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (own / "my.toml").write_text(OWN)
    (own / "clicks.csv.gz").write_bytes(gzip.compress(b"a;clicked\n1;yes\n"))
    data = tmp_path / "data"
    data.mkdir()
    (data / "later.csv").write_bytes(b"a;clicked\n1;yes\n")

    spec = load_registry(own / "my.toml", data).find("ads")
    found = resolve(spec, data)
    assert found.train_url == str(own / "clicks.csv.gz")
    assert found.test_url == str(data / "later.csv")
    assert (found.label, found.delimiter, found.two_class) == ("clicked", ";", (("yes",), ("no", "maybe")))
    assert (found.split, found.format, found.task) == (Split("first", 0.9), "auto", "auto")

    by_directory = load_registry(data_dir=own)
    assert by_directory.find("clicks") == spec
    assert by_directory.find("a9a") == REGISTRY.find("a9a")
    assert load_registry(own / "my.toml", own).find("clicks") == spec


def test_other_toml_files_in_the_data_directory_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text('dataset_name = "a9a"\n')
    assert load_registry(data_dir=tmp_path) == REGISTRY
    with pytest.raises(InputError, match="found no data set"):
        load_registry(tmp_path / "run.toml")


def test_test_rows_are_called_what_they_are(tmp_path: Path) -> None:
    """Only what comes with a registered data set is its own test set."""
    for name in ("train.svm", "test.svm"):
        (tmp_path / name).write_text("1 1:1\n-1 1:0\n")
    (tmp_path / "my.toml").write_text(
        "[dataset.both]\ntrain = 'train.svm'\ntest = 'test.svm'\n[dataset.one]\ntrain = 'train.svm'\n"
        "[dataset.early]\ntrain = 'train.svm'\nsplit = { rule = 'first', fraction = 0.5 }\n"
    )

    def found(**options: Any) -> str:
        return find_data(BatchOptions(**options), QuietProgress()).test_rows

    mine: dict[str, Any] = {"dataset_file": str(tmp_path / "my.toml"), "data_dir": str(tmp_path)}
    assert found(dataset="both", **mine) == "official"
    assert found(dataset="one", **mine) == "split"
    assert found(dataset="early", **mine) == "last"
    assert found(dataset="early", test_size=0.3, **mine) == "split"
    train, test = str(tmp_path / "train.svm"), str(tmp_path / "test.svm")
    assert found(input=train, test_input=test) == "file"
    assert found(input=train) == "split"


@pytest.mark.parametrize("test", ["rows.csv", "rows.csv.gz", "s3"])
def test_one_file_is_not_for_training_and_for_the_test(test: str, tmp_path: Path) -> None:
    train, test = ("s3://bucket/rows.csv",) * 2 if test == "s3" else ("rows.csv", test)
    (tmp_path / "rows.csv").write_text("a,b\n1,2\n")
    (tmp_path / "my.toml").write_text(f"[dataset.x]\ntrain = '{train}'\ntest = '{test}'\n")
    with pytest.raises(InputError) as error:
        resolve(load_registry(tmp_path / "my.toml").find("x"), tmp_path)
    assert one_line(error).startswith("x: found ")
    assert "rows.csv for train and for test, expected two files; leave test out" in str(error.value)


def test_object_store_addresses_are_left_to_the_readers(tmp_path: Path) -> None:
    (tmp_path / "my.toml").write_text('[dataset.far]\ntrain = "s3://bucket/far.parquet"\n')
    assert resolve(load_registry(tmp_path / "my.toml").find("far"), tmp_path).train_url == "s3://bucket/far.parquet"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[dataset.x\n", "not a TOML file"),
        ("dataset = 3\n", "found no data set"),
        ("[dataset]\nx = 3\n", "found 3, expected a table"),
        ("[dataset.x]\n", "expected train"),
        ("[dataset.x]\ntrain = 3\n", "train = 3, expected a string"),
        ("[dataset.x]\ntrain = 'f'\nlable = 'y'\n", "unknown key 'lable', expected label"),
        ("[dataset.x]\ntrain = 'f'\nn_columns = 0\n", "n_columns = 0, expected a positive integer"),
        ("[dataset.x]\ntrain = 'f'\nn_columns = true\n", "expected a positive integer"),
        ("[dataset.x]\ntrain = 'f'\nformat = 'weka'\n", "format = 'weka', expected one of auto, csv, parquet"),
        ("[dataset.x]\ntrain = 'f'\ndivide = 0\n", "divide = 0, expected a positive number"),
        ("[dataset.x]\ntrain = 'f'\ndivide = inf\n", "divide = inf, expected a positive number"),
        ("[dataset.x]\ntrain = 'f'\nsplit = { fraction = 1.5 }\n", "split"),
        ("[dataset.x]\ntrain = 'f'\nsplit = { rule = 'last' }\n", "split"),
        ("[dataset.x]\ntrain = 'f'\ntwo_class = [[1], [1, 2]]\n", "without a label in common"),
        ("[dataset.x]\ntrain = 'f'\ntwo_class = [[1]]\n", "two lists"),
        ("[dataset.x]\ntrain = 'f'\nsite = 'ftp.example'\n", "http or https"),
        ("[dataset.x]\ntrain = 'f'\nsuffixes = ['.zip']\n", "suffixes"),
        ("[dataset.x]\nvariants = [{ train = 'f', label = 'y' }]\n", "variant: unknown key 'label'"),
        ("[dataset.x]\nvariants = [{ test = 'f' }]\n", "expected train"),
        ("[dataset.a9a]\ntrain = 'f'\n", "a9a is taken by a9a of datasets.toml"),
        ("[dataset.x]\ntrain = 'f'\naliases = ['Adult']\n", "Adult is taken by a9a of datasets.toml"),
        (
            "[dataset.x]\ntrain = 'f'\n[dataset.y]\ntrain = 'g'\naliases = ['x']\n",
            "x is taken by x of my.toml",
        ),
    ],
)
def test_wrong_definitions_get_one_line(text: str, complaint: str, tmp_path: Path) -> None:
    (tmp_path / "my.toml").write_text(text)
    with pytest.raises(InputError) as error:
        load_registry(tmp_path / "my.toml")
    assert one_line(error).startswith(f"{tmp_path / 'my.toml'}: ")
    assert complaint in str(error.value)


def test_definitions_that_cannot_be_read_get_one_line(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.toml: cannot read"):
        load_registry(tmp_path / "none.toml")
    (tmp_path / "latin.toml").write_bytes(b"# caf\xe9\n")
    with pytest.raises(InputError, match=r"latin\.toml: found bytes that are not UTF-8, expected TOML in UTF-8"):
        load_registry(tmp_path / "latin.toml")
