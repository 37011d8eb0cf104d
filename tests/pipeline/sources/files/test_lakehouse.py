"""Tables of Delta, Iceberg and Hudi are refused, however they are named: their folders hold removed rows too."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.errors import InputError
from pipeline.sources import ReadRequest
from pipeline.sources.feeds.directory import DirectoryFeed
from pipeline.sources.named import named_files

LOGS = {"Delta": "_delta_log/0.json", "Hudi": ".hoodie/hoodie.properties", "Iceberg": "metadata/v1.metadata.json"}
WORDS = {"Delta": "import deltalake", "Hudi": "spark.read.format('hudi')", "Iceberg": "import pyiceberg"}


def make(folder: Path, kind: str) -> Path:
    """Write what such a table has: data in folders, and a log."""
    for name in ("data/a.parquet", "data/p=1/b.parquet"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({"x": [1.0, 2.0], "y": [0, 1]}), folder / name)
    log = folder / LOGS[kind]
    log.parent.mkdir()
    log.write_text("{}")
    return folder


@pytest.mark.parametrize("kind", LOGS)
@pytest.mark.parametrize(
    "given",
    ["lake/t", "lake/t/", "lake", "lake/t/data", "lake/t/data/p=1", "lake/t/data/*.parquet", "lake/t/*/*/*.parquet",
     "lake/t/data/a.parquet", "plain.parquet,lake/t/data/a.parquet", "plain.parquet,lake/t"],
)  # fmt: skip
def test_every_way_to_name_one(kind: str, given: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    make(tmp_path / "lake" / "t", kind)
    pq.write_table(pa.table({"x": [1.0], "y": [0]}), "plain.parquet")
    with pytest.raises(InputError) as error:
        named_files(given)
    said = str(error.value)
    assert re.match(rf"(.*/)?lake/t: found an? {kind} table, whose folder also holds rows that were removed", said)
    assert WORDS[kind] in said
    assert "\n" not in said


def test_other_folders_are_none(tmp_path: Path) -> None:
    (tmp_path / "metadata").mkdir()
    (tmp_path / "metadata" / "notes.json").write_text("{}")
    (tmp_path / "my_delta_log").mkdir()
    for name in ("a.parquet", "my_delta_log/b.parquet"):
        pq.write_table(pa.table({"x": [1.0], "y": [0]}), tmp_path / name)
    assert len(named_files(str(tmp_path))) == 2
    assert len(named_files(f"{tmp_path}/*/*.parquet")) == 1


@pytest.mark.parametrize("kind", LOGS)
@pytest.mark.parametrize("given", ["lake/t", "lake", "lake/t/*/*.parquet"])
def test_remote_ones(kind: str, given: str) -> None:
    fs: Any = fsspec.filesystem("memory")
    if fs.exists("/lake"):
        fs.rm("/lake", recursive=True)
    for name in ("data/a.parquet", LOGS[kind]):
        fs.pipe(f"/lake/t/{name}", b"whatever")
    given = given if kind == "Delta" or "*" not in given else given.replace("*/*.parquet", "data*/*.parquet")
    with pytest.raises(InputError, match=rf"memory://lake/t: found an? {kind} table"):
        named_files(f"memory://{given}")
    fs.rm("/lake", recursive=True)
    fs.pipe("/lake/t/data/a.parquet", b"whatever")
    assert len(named_files(f"memory://{given}")) == 1
    fs.rm("/lake", recursive=True)


def test_as_a_stream(tmp_path: Path) -> None:
    feed = DirectoryFeed(str(make(tmp_path / "t", "Delta")), "auto", ReadRequest(), 1.0, print)
    with pytest.raises(InputError, match="found a Delta table"):
        next(iter(feed.arrivals({})))
