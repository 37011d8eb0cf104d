"""Tables on servers: http and S3, on this host; names of proxies in the environment change nothing."""

from __future__ import annotations

import http.server
from collections.abc import Callable, Iterator
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from flows.options.batch import BatchOptions
from flows.options.score import ScoreOptions
from flows.runs.batch import find_data
from pipeline.errors import InputError
from pipeline.sources.datasets.download import readable
from tests.pipeline.sources.files.test_files_web import Parts, Quiet
from tests.pipeline.sources.formats.s3_server import serving_buckets
from tests.pipeline.sources.test_sources_tables import rows
from tests.support.one_process import Command, Heard, one_process, score_file
from tests.support.opening import opened
from tests.support.serving import serving

pytestmark = pytest.mark.slow

N = 60


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.setenv(name, "127.0.0.1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    with one_process():
        yield


def parts(folder: Path) -> pa.Table:
    """Two files with columns in another order, in folders that give a column."""
    rng = np.random.default_rng(0)
    a = rng.normal(size=N)
    whole = pa.table({"a": a, "town": [f"t{k % 4}" for k in range(N)], "label": (a > 0).astype(int)})
    for k, half in enumerate((whole.slice(0, 30), whole.slice(30).select(["label", "town", "a"]))):
        (folder / f"k=x%2F{k}").mkdir(parents=True)
        pq.write_table(half, folder / f"k=x%2F{k}" / "p.parquet", row_group_size=10)
    (folder / "_SUCCESS").touch()
    pyarrow.csv.write_csv(whole, folder.parent / "t.csv")
    return whole


@pytest.mark.parametrize("kind", [Quiet, Parts])
def test_files_of_a_web_server(kind: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parts(tmp_path / "all")
    monkeypatch.setenv("IKMAP_DATA_DIR", str(tmp_path / "copies"))
    expected = rows(opened(",".join(str(tmp_path / "all" / f"k=x%2F{k}" / "p.parquet") for k in (0, 1))))
    with serving(partial(kind, directory=str(tmp_path))) as site:
        # % is written as %25 in an address, and stands in the names of Hive's folders.
        named = ",".join(f"{site}/all/k=x%252F{k}/p.parquet" for k in (0, 1))
        (source, _) = find_data(BatchOptions(input=named), Heard()).sources
        found, labels = rows(source)
        assert [row[:2] for row in found] == [row[:2] for row in expected[0]]
        assert labels == expected[1]
        for listed in (f"{site}/all/", f"{site}/all/*.parquet"):
            with pytest.raises(InputError) as error:
                find_data(BatchOptions(input=listed), Heard())
            assert str(error.value) == (
                f"{listed}: found a folder or a glob, which no web server lists; name its files, with commas between"
            )
        if kind is Quiet:  # which shows a page for a folder
            with pytest.raises(InputError, match="a web page came instead of the data"):
                _ = find_data(BatchOptions(input=f"{site}/all"), Heard()).sources


def test_a_run_on_a_web_server_and_its_scores(tmp_path: Path) -> None:
    whole = parts(tmp_path / "all")
    with serving(partial(Parts, directory=str(tmp_path))) as site:
        options = BatchOptions(input=f"{site}/t.csv", learner=("svm",), t=3, psi=4, C=1.0)
        metrics = Command(options).run(tmp_path / "run")
        assert metrics["data"]["rows_train"] == 48
        out = str(tmp_path / "out.parquet")
        said = score_file(ScoreOptions(model=str(tmp_path / "run"), input=f"{site}/t.csv", output=out))
        assert said["rows_labelled"] == whole.num_rows


class Proxy(Parts):
    """Answers for every host with the files of its folder."""

    def translate_path(self, path: str) -> str:
        return super().translate_path("/" + path.partition("://")[2].partition("/")[2])


def test_a_proxy_that_the_environment_names_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parts(tmp_path / "all")
    assert issubclass(Proxy, http.server.SimpleHTTPRequestHandler)
    with serving(partial(Proxy, directory=str(tmp_path))) as site:
        monkeypatch.setenv("http_proxy", site)
        monkeypatch.setenv("HTTP_PROXY", site)
        monkeypatch.setattr("urllib.request._opener", None)  # which keeps the proxies of the first request
        url = readable("http://files.invalid/t.csv", tmp_path / "data", say=print)
        assert len(rows(opened(url))[0]) == N


@pytest.mark.skipif(find_spec("s3fs") is not None, reason="s3fs is installed, and reads s3 in place of Arrow")
def test_buckets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = parts(tmp_path / "s3" / "bucket" / "all")
    expected = rows(opened(str(tmp_path / "s3" / "bucket" / "all")))
    with serving_buckets(tmp_path / "s3") as address:
        monkeypatch.setenv("AWS_ENDPOINT_URL", address)
        for given in ("s3://bucket/all", "s3://bucket/all/", "s3://bucket/all/*/*.parquet"):
            assert rows(opened(given)) == expected
        two = ",".join(f"s3://bucket/all/k=x%2F{k}/p.parquet" for k in (0, 1))
        assert len(rows(opened(two))[0]) == N
        text = opened("s3://bucket/t.csv")
        assert len(rows(text)[0]) == N
        identity = text.identity()
        Command(BatchOptions(input="s3://bucket/all", learner=("svm",), t=3, psi=4, C=1.0)).run(tmp_path / "run")
        out = str(tmp_path / "out.parquet")
        said = score_file(ScoreOptions(model=str(tmp_path / "run"), input="s3://bucket/all/*/*.parquet", output=out))
        assert said["rows_labelled"] == whole.num_rows
        (tmp_path / "s3" / "bucket" / "t.csv").write_text("a,label\n1,0\n")
        assert opened("s3://bucket/t.csv").identity() != identity
        for given, words in (
            ("s3://bucket/none.csv", "no such file"),
            ("s3://nobody/t.csv", "no such file"),
            ("s3://bucket/none/*.csv", "found no file of such a name"),
        ):
            with pytest.raises(InputError) as error:
                opened(given)
            assert str(error.value) == f"{given}: {words}"
