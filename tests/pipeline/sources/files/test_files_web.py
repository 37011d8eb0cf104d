"""Files behind web addresses: read where they are if their server serves parts of them, else a copy of them is."""

from __future__ import annotations

import http.server
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import fsspec.config
import numpy as np
import pytest

import flows.batch
import flows.online
import flows.score
from flows.cli import run_command
from pipeline.errors import InputError
from pipeline.sources import Sizes
from pipeline.sources.datasets.download import COPIES, readable
from pipeline.sources.datasets.spec import name_here
from pipeline.urls import Location
from tests.pipeline.sources.files.test_files import COMPRESS, CONTENT, read_all, same
from tests.support.opening import opened
from tests.support.serving import serving

Plain = http.server.SimpleHTTPRequestHandler
"""What ``python -m http.server`` serves with: whole files, whatever part is asked for."""


class Quiet(Plain):
    """The same without a word."""

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


class Parts(Quiet):
    """Serves parts of files; `cut` has it stop in the middle of what it has announced."""

    cut = False
    failing = 0

    def do_GET(self) -> None:
        body = Path(self.translate_path(self.path)).read_bytes()
        asked = self.headers.get("Range", "").removeprefix("bytes=").partition("-")
        begin, end = int(asked[0] or 0), min(int(asked[2] or len(body)), len(body) - 1)
        part = body[begin : end + 1]
        if self.failing and len(part) > 1:
            self.send_error(self.failing)
            return
        self.send_response(206)
        self.send_header("Content-Range", f"bytes {begin}-{end}/{len(body)}")
        self.send_header("Content-Length", str(len(part)))
        self.end_headers()
        self.wfile.write(part[: len(part) // 2] if self.cut and len(part) > 1 else part)


class Whole(Quiet):
    """Answers with a whole file, of which it stops in the middle."""

    def do_GET(self) -> None:
        body = Path(self.translate_path(self.path)).read_bytes()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[: len(body) // 2])


class Odd(Quiet):
    """Answers with errors and with other places."""

    def do_GET(self) -> None:
        name = self.path.rpartition("/")[2]
        if name.isdecimal():
            self.send_error(int(name), "no\x1b[31m")
            return
        self.send_response(302)
        self.send_header("Location", {"loop": "/loop", "local": "file:///etc/passwd"}.get(name, "/a.csv"))
        self.end_headers()

    do_HEAD = do_GET


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")


def ignored(*_: Any) -> None:
    """Told what nobody wants to know."""


FILES = {**{f"a.{kind}": content for kind, content in CONTENT.items()},
         **{f"b.libsvm.{ending}": pack(CONTENT["libsvm"]) for ending, pack in COMPRESS.items()}}  # fmt: skip


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("kind", [Quiet, Parts])
def test_every_format_from_every_server(name: str, kind: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / name).write_bytes(FILES[name])
    said: list[str] = []
    steps: list[tuple[str, int, int | None]] = []
    with serving(partial(kind, directory=str(tmp_path / "site"))) as site:
        url = readable(f"{site}/{name}", tmp_path / "data", say=said.append, progress=lambda *step: steps.append(step))
        found = read_all(opened(url, sizes=Sizes(block=100)))
    assert same(found, read_all(opened(str(tmp_path / "site" / name), sizes=Sizes(block=100))))
    if kind is Parts:
        assert url == f"{site}/{name}"
        assert said == []
        assert not (tmp_path / "data").exists()
    else:
        assert Path(url).read_bytes() == FILES[name]
        assert [path.name for path in (tmp_path / "data" / COPIES).rglob("*") if path.is_file()] == [name]
        assert said == [f"{site}/{name}: its server does not serve parts of files; downloading it to {url}"]
        assert steps[-1] == (name, len(FILES[name]), len(FILES[name]))


def test_a_copy_is_taken_again_until_the_file_is_another(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_bytes(CONTENT["csv"])
    said: list[str] = []
    with serving(partial(Quiet, directory=str(tmp_path))) as site:
        first, second = (readable(f"{site}/a.csv", tmp_path / "data", say=said.append) for _ in range(2))
        assert first == second
        assert said[1] == f"{site}/a.csv: reading the copy {first}"
        file.write_bytes(CONTENT["csv"] * 2)
        third = readable(f"{site}/a.csv", tmp_path / "data", say=said.append)
    assert Path(third).read_bytes() == CONTENT["csv"] * 2
    assert Path(first).read_bytes() == CONTENT["csv"]  # a run that began with it may still read it


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("404", "cannot be read: the server answered 404"),
        ("500", "cannot be read: the server answered 500"),
        ("loop", "cannot be read: the server answered 302"),
        ("local", "cannot be read: the server answered 302"),
    ],
)
def test_answers_that_are_no_file(path: str, words: str, tmp_path: Path) -> None:
    with serving(partial(Odd, directory=str(tmp_path))) as site, pytest.raises(InputError) as error:
        readable(f"{site}/{path}", tmp_path / "data", say=ignored)
    assert str(error.value).startswith(f"{site}/{path}: {words}")
    assert "\n" not in str(error.value)
    assert not (tmp_path / "data").exists()


def test_nobody_answers(tmp_path: Path) -> None:
    with serving(partial(Quiet, directory=str(tmp_path))) as site:
        pass
    with pytest.raises(InputError, match=rf"^{site}/a\.csv: cannot be read: .*refused"):
        readable(f"{site}/a.csv", tmp_path / "data", say=ignored)


def test_a_server_that_stops_in_the_middle_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(CONTENT["csv"])
    n = len(CONTENT["csv"])
    with serving(partial(Whole, directory=str(tmp_path))) as site, pytest.raises(InputError) as error:
        readable(f"{site}/a.csv", tmp_path / "data", say=ignored)
    assert str(error.value).startswith(f"{site}/a.csv: download failed: cut off")
    assert f"{n // 2:,}" in str(error.value)
    assert [path for path in (tmp_path / "data").rglob("*") if path.is_file()] == []


@pytest.mark.parametrize("change", [{"cut": True}, {"failing": 500}, {"failing": 403}])
@pytest.mark.parametrize("name", ["a.csv", "a.npz", "a.parquet", "b.libsvm.gz"])
def test_parts_that_do_not_come_are_one_line(name: str, change: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(FILES[name])
    with (
        serving(partial(type("Failing", (Parts,), change), directory=str(tmp_path))) as site,
        pytest.raises(InputError) as error,
    ):
        read_all(opened(readable(f"{site}/{name}", tmp_path / "data", say=ignored)))
    assert str(error.value).startswith(f"{site}/{name}: ")
    assert "\n" not in str(error.value)


def test_the_readers_alone_say_what_to_do(tmp_path: Path) -> None:
    """Without a place for a copy."""
    np.save(tmp_path / "a.npy", np.arange(3_000_000.0).reshape(-1, 3))
    with serving(partial(Quiet, directory=str(tmp_path))) as site, pytest.raises(InputError) as error:
        read_all(opened(f"{site}/a.npy"))
    assert str(error.value) == (
        f"{site}/a.npy: its server does not serve parts of files; download the file and give its path"
    )


@pytest.mark.slow
def test_the_commands_read_from_a_server_of_whole_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = np.random.default_rng(0)
    X = rng.random((150, 3))
    rows = np.column_stack([X, (X[:, 0] + X[:, 1] > 1)])
    for name, part in (("train", rows[:100]), ("test", rows[100:])):
        np.savetxt(tmp_path / f"{name}.csv", part, delimiter=",", header="a,b,c,class", comments="", fmt="%.6g")
    monkeypatch.setenv("IKMAP_DATA_DIR", str(tmp_path / "data"))
    with serving(partial(Quiet, directory=str(tmp_path))) as site:
        shared = ["--workers", "1"]
        small = ["--t", "10", "--psi", "4", *shared]
        files = ["--input", f"{site}/train.csv", "--test-input", f"{site}/test.csv"]
        run = tmp_path / "run"
        assert run_command(flows.batch.main, [*files, *small, "--run-dir", str(run)]) == 0
        said = capsys.readouterr().err
        assert "downloading train.csv: 0.0 of 0.0 MB" in said
        command = [*files, *small, "--initial", "20", "--run-dir", str(tmp_path / "online")]
        assert run_command(flows.online.main, command) == 0
        assert "reading the copy" in capsys.readouterr().err
        output = tmp_path / "out.parquet"
        scored = ["--model", str(run), "--input", f"{site}/test.csv", "--output", str(output), *shared]
        assert run_command(flows.score.main, scored) == 0
        assert output.exists()
        capsys.readouterr()
        assert run_command(flows.batch.main, ["--input", f"{site}/none.csv", *small]) == 2
    starting, said = capsys.readouterr().err.splitlines()
    assert " starting: " in starting
    assert said == f"error: {site}/none.csv: cannot be read: the server answered 404"


class Signed(Parts):
    """Serves parts of a file to whoever has signed the request, in the query or by a header."""

    def do_GET(self) -> None:
        path, _, query = self.path.partition("?")
        if "sig=s" not in query and self.headers.get("Authorization") != "Bearer b":
            self.send_error(403)
            return
        self.path = path
        super().do_GET()

    do_HEAD = do_GET


def test_signed_urls_open_and_another_signature_is_the_same_file(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("a b,label\n1,0\n2,1\n")
    with serving(partial(Signed, directory=str(tmp_path))) as site:
        first, second = (
            opened(readable(f"{site}/rows.csv?sig={sig}", tmp_path / "data", say=ignored)) for sig in ("s1", "s2")
        )
        assert (str(first.url), first.format) == (f"{site}/rows.csv?...", "csv")
        assert [block.X.tolist() for block in first.read(first.fragments()[0])] == [[[1.0], [2.0]]]
        assert first.identity() == second.identity()
        for reading in (opened, lambda url: readable(url, tmp_path / "data", say=ignored)):
            with pytest.raises(InputError, match="found no query, expected the whole address"):
                reading(f"{site}/rows.csv?...")
            with pytest.raises(InputError, match=r"403|no such file") as refused:
                opened(f"{site}/rows.csv?sig=0123456789")
            assert "0123456789" not in str(refused.value)


def test_headers_come_from_the_settings_of_fsspec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In place of a token in the address, which is refused."""
    monkeypatch.setitem(fsspec.config.conf, "http", {"headers": {"Authorization": "Bearer b"}})
    (tmp_path / "rows.csv").write_text("a,label\n1,0\n2,1\n")
    with serving(partial(Signed, directory=str(tmp_path))) as site:
        source = opened(readable(f"{site}/rows.csv", tmp_path / "data", say=ignored))
        assert len(next(iter(source.read(source.fragments()[0]))).X) == 2


def test_files_that_differ_by_the_query_or_the_host_are_kept_apart() -> None:
    names = {name_here(Location(f"https://host/download?id={k}")) for k in (1, 2)}
    assert len(names) == 2
    assert not any("id" in name.removesuffix("download") for name in names)
    names = {name_here(Location(f"https://{host}/rows.csv")) for host in ("a", "b")}
    assert len(names) == 2
    assert all(name.endswith("-rows.csv") for name in names)
    assert name_here(Location("rows.csv")) == "rows.csv"


@pytest.mark.parametrize("proxy", ["http://ann:pa/ss@proxy:80", "http://ann:pa?ss@proxy:80"])
def test_a_proxy_that_cannot_be_taken_apart_is_not_repeated(
    proxy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", proxy)
    with pytest.raises(InputError) as refused:
        readable("http://127.0.0.1:1/rows.csv", tmp_path, say=ignored)
    assert not {"pa", "ss"} & set(str(refused.value).replace("/", " ").replace("@", " ").split())
