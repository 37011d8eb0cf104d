"""Files that are missing are fetched, whole or not at all."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import lzma
import os
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from pipeline.errors import InputError
from pipeline.sources.datasets.download import DownloadError, download
from pipeline.sources.datasets.known import load_registry
from pipeline.sources.datasets.registry import resolve
from pipeline.sources.datasets.spec import DatasetSpec, Files, name_here
from pipeline.urls import Location
from tests.pipeline.sources.datasets.test_registry import COMPRESS, LINE, one_line
from tests.support.narrow import present


class Site(BaseHTTPRequestHandler):
    """Serves `pages`; those in `cut` lose their second half; those in `vague` do not tell their length."""

    pages: dict[str, bytes]
    cut: set[str]
    vague: set[str]
    asked: list[str]

    def do_GET(self) -> None:
        name = self.path.removeprefix("/data/").partition("?")[0]
        self.asked.append(name)
        body = self.pages.get(name)
        if body is None:
            self.send_error(404)
            return
        self.send_response(200)
        if name not in self.vague:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[: len(body) // 2] if name in self.cut else body)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, type[Site]]]:
    """A web site on this machine: its address, and the handler class that holds its pages."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    handler = type("Pages", (Site,), {"pages": {}, "cut": set(), "vague": set(), "asked": []})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/data", handler
        server.shutdown()
        thread.join()


@pytest.fixture
def closed(monkeypatch: pytest.MonkeyPatch) -> str:
    """An address at which nobody answers: as without a network."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    return f"http://127.0.0.1:{port}/data"


def remote(address: str, *suffixes: str, **more: Any) -> DatasetSpec:
    files = Files(train=Location("toy"), test=Location("toy.t"), site=address, suffixes=suffixes or (".bz2",), **more)
    return DatasetSpec(name="toy", files=(files,))


@pytest.mark.slow
def test_missing_files_are_downloaded_with_progress(site: tuple[str, type[Site]], tmp_path: Path) -> None:
    address, handler = site
    train, test = bz2.compress(os.urandom(3 << 20)), bz2.compress(LINE)
    handler.pages |= {"toy.bz2": train, "toy.t.bz2": test}
    told: dict[str, list[tuple[int, int | None]]] = {"toy.bz2": [], "toy.t.bz2": []}
    data = tmp_path / "made" / "for it"
    found = resolve(remote(address), data, progress=lambda name, *step: told[name].append(step))
    assert Path(found.train_url).read_bytes() == train
    assert found.test_url is not None
    assert Path(found.test_url).read_bytes() == test
    assert sorted(os.listdir(data)) == ["toy.bz2", "toy.t.bz2"]
    for name, body in handler.pages.items():
        assert told[name][0] == (0, len(body))
        assert told[name][-1] == (len(body), len(body))
    assert len(told["toy.bz2"]) > 3
    assert [done for done, _ in told["toy.bz2"]] == sorted(done for done, _ in told["toy.bz2"])

    handler.asked.clear()
    assert resolve(remote(address), data) == found
    assert handler.asked == []


def test_only_what_is_missing_is_downloaded(site: tuple[str, type[Site]], tmp_path: Path) -> None:
    address, handler = site
    handler.pages["toy.t.bz2"] = bz2.compress(LINE)
    (tmp_path / "toy").write_bytes(LINE)
    found = resolve(remote(address), tmp_path)
    assert (found.train_url, found.test_url) == (str(tmp_path / "toy"), str(tmp_path / "toy.t.bz2"))
    assert handler.asked == ["toy.t.bz2"]


def test_another_compression_is_tried(site: tuple[str, type[Site]], tmp_path: Path) -> None:
    address, handler = site
    handler.pages |= {"toy.xz": lzma.compress(LINE), "toy.t": LINE}
    found = resolve(remote(address, ".bz2", ".xz", ""), tmp_path)
    assert (found.train_url, found.test_url) == (str(tmp_path / "toy.xz"), str(tmp_path / "toy.t"))


def test_a_data_set_can_be_named_by_its_address(site: tuple[str, type[Site]], tmp_path: Path) -> None:
    address, handler = site
    handler.pages["far.csv.gz"] = gzip.compress(b"a,b\n1,2\n")
    (tmp_path / "my.toml").write_text(f'[dataset.far]\ntrain = "{address}/far.csv.gz"\n')
    spec = load_registry(tmp_path / "my.toml").find("far")
    kept = str(tmp_path / name_here(Location(f"{address}/far.csv.gz")))
    assert kept.endswith("-far.csv.gz")
    assert resolve(spec, tmp_path).train_url == kept
    assert resolve(spec, tmp_path).train_url == kept
    assert handler.asked == ["far.csv.gz"]


def test_files_of_one_name_are_kept_apart(site: tuple[str, type[Site]], tmp_path: Path) -> None:
    """As those of the Hugging Face Hub are called, by their addresses and below a site."""
    address, handler = site
    rows = {side: f"a,b\n1,{side}\n".encode() for side in ("train", "test", "other")}
    handler.pages |= {f"{side}/0000.csv": text for side, text in rows.items()}
    digest = hashlib.sha256(rows["test"]).hexdigest()
    (tmp_path / "my.toml").write_text(
        f'[dataset.far]\ntrain = "{address}/train/0000.csv"\ntest = "{address}/test/0000.csv"\n'
        f'sha256 = {{ "{address}/test/0000.csv" = "{digest}" }}\n'
        f'[dataset.other]\ntrain = "{address}/other/0000.csv"\n'
        f'[dataset.site]\nsite = "{address}"\ntrain = "train/0000.csv"\ntest = "test/0000.csv"\n'
        f'[dataset.changed]\ntrain = "{address}/test/0000.csv?1"\nsha256 = {{ "0000.csv" = "{"0" * 64}" }}\n'
        f'[dataset.outside]\nsite = "{address}"\ntrain = "../train/0000.csv"\n'
    )
    registry, data = load_registry(tmp_path / "my.toml"), tmp_path / "data"
    for name in ("far", "site"):
        found = resolve(registry.find(name), data)
        assert Path(found.train_url).read_bytes() == rows["train"]
        assert Path(present(found.test_url)).read_bytes() == rows["test"]
    assert Path(resolve(registry.find("other"), data).train_url).read_bytes() == rows["other"]
    assert len(handler.asked) == 5
    with pytest.raises(InputError, match="SHA-256") as error:
        resolve(registry.find("changed"), data)
    assert f"fetch {address}/test/0000.csv?... (as {name_here(Location(f'{address}/test/0000.csv?1'))})" in str(
        error.value
    )
    with pytest.raises(InputError, match="no address to download from is known"):
        resolve(registry.find("outside"), data)


def damaged(name: str) -> bytes:
    body = bytearray(COMPRESS[name[name.rindex(".") :]](os.urandom(5000)))
    body[len(body) // 2] ^= 0xFF
    return bytes(body)


NOT_THE_FILE: dict[str, tuple[str, bytes | None, bool, str]] = {
    "nothing": ("toy.bz2", None, False, "answered 404"),
    "short bz2": ("toy.bz2", bz2.compress(LINE)[:-9], False, "damaged"),
    "short bz2 of unknown length": ("toy.bz2", bz2.compress(LINE)[:-9], True, "damaged"),
    "short xz of unknown length": ("toy.xz", lzma.compress(LINE)[:-9], True, "damaged"),
    "short gz of unknown length": ("toy.gz", gzip.compress(LINE)[:-9], True, "damaged"),
    "short zst of unknown length": ("toy.zst", COMPRESS[".zst"](LINE)[:-9], True, "damaged"),
    "damaged bz2": ("toy.bz2", damaged("toy.bz2"), False, "damaged"),
    "damaged xz": ("toy.xz", damaged("toy.xz"), False, "damaged"),
    "damaged gz": ("toy.gz", damaged("toy.gz"), False, "damaged"),
    "text": ("toy.bz2", LINE, False, "not a .bz2 file"),
    "text in place of zst": ("toy.zst", LINE, False, "not a .zst file"),
    "empty": ("toy", b"", False, "empty"),
    "page": ("toy", b"\n <!DOCTYPE html><p>log in first", False, "a web page"),
}


@pytest.mark.parametrize(("name", "body", "vague", "reason"), NOT_THE_FILE.values(), ids=NOT_THE_FILE)
def test_what_is_not_the_file_leaves_nothing(
    name: str, body: bytes | None, vague: bool, reason: str, site: tuple[str, type[Site]], tmp_path: Path
) -> None:
    address, handler = site
    if body is not None:
        handler.pages[name] = body
    if vague:
        handler.vague.add(name)
    with pytest.raises(DownloadError, match=reason):
        download(f"{address}/{name}", tmp_path / name)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("name", ["toy", "toy.bz2"])
def test_a_body_cut_short_leaves_nothing(name: str, site: tuple[str, type[Site]], tmp_path: Path) -> None:
    address, handler = site
    body = handler.pages[name] = COMPRESS[name[3:]](LINE)
    handler.cut.add(name)
    with pytest.raises(DownloadError, match=f"cut off: {len(body) // 2:,} of {len(body):,} bytes"):
        download(f"{address}/{name}", tmp_path / name)
    assert os.listdir(tmp_path) == []


def test_interruption_leaves_nothing(site: tuple[str, type[Site]], tmp_path: Path) -> None:
    address, handler = site
    handler.pages["toy"] = LINE
    seen = []

    def interrupt(done: int, _total: int | None) -> None:
        seen.append(os.listdir(tmp_path))
        if done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        download(f"{address}/toy", tmp_path / "toy", progress=interrupt)
    assert all(len(names) == 1 and names[0].startswith(".toy.") for names in seen)
    assert os.listdir(tmp_path) == []


def test_a_file_is_replaced_only_by_a_whole_one(site: tuple[str, type[Site]], tmp_path: Path) -> None:
    address, handler = site
    handler.pages["toy"] = LINE
    handler.cut.add("toy")
    (tmp_path / "toy").write_text("old")
    with pytest.raises(DownloadError):
        download(f"{address}/toy", tmp_path / "toy")
    assert (tmp_path / "toy").read_text() == "old"
    handler.cut.clear()
    download(f"{address}/toy", tmp_path / "toy")
    assert (tmp_path / "toy").read_bytes() == LINE


def test_checksum(site: tuple[str, type[Site]], tmp_path: Path) -> None:
    address, handler = site
    handler.pages |= {"toy": LINE, "toy.t": LINE}
    right = {"toy": hashlib.sha256(LINE).hexdigest().upper()}
    assert resolve(remote(address, "", sha256=right), tmp_path).train_url == str(tmp_path / "toy")
    other = tmp_path / "other"
    with pytest.raises(InputError, match="SHA-256") as error:
        resolve(remote(address, "", sha256={"toy": "0" * 64}), other)
    one_line(error)
    assert os.listdir(other) == []


def test_no_network_says_what_to_fetch_and_where_to_put_it(closed: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as error:
        resolve(remote(closed), tmp_path)
    text = one_line(error)
    assert text.startswith("toy: download failed (")
    assert f"fetch {closed}/toy.bz2 and {closed}/toy.t.bz2 by hand into {tmp_path}" in text
    assert os.listdir(tmp_path) == []

    (tmp_path / "toy.xz").write_bytes(lzma.compress(LINE))
    with pytest.raises(InputError, match=f"fetch {closed}/toy.t.bz2 by hand into"):
        resolve(remote(closed), tmp_path)


def test_a_data_directory_that_cannot_be_written(site: tuple[str, type[Site]], tmp_path: Path) -> None:
    address, handler = site
    handler.pages["toy.bz2"] = bz2.compress(LINE)
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(InputError) as error:
        resolve(remote(address), tmp_path / "file")
    assert one_line(error).startswith(f"{tmp_path / 'file'}: cannot write to the data directory")
