"""Finding, recognising, decompressing and identifying files, local and remote; and the real data sets."""

from __future__ import annotations

import bz2
import dataclasses
import gzip
import hashlib
import io
import json
import lzma
import os
import pickle
from collections.abc import Callable
from pathlib import Path

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.datasets import load_svmlight_file

from pipeline.errors import InputError
from pipeline.sources import RawRows, Sizes, Source
from pipeline.sources.files.file import find_file
from tests.support.narrow import csr, present
from tests.support.opening import opened

LIBSVM = b"1 1:2 3:4\n-1 2:0.5\n" * 50
CSV = b"a,b,class\n" + b"1,2,x\n3,4,y\n" * 50
MATRIX = np.arange(30.0).reshape(10, 3)


def npy() -> bytes:
    out = io.BytesIO()
    np.save(out, MATRIX)
    return out.getvalue()


def npz() -> bytes:
    out = io.BytesIO()
    np.savez(out, X=MATRIX, y=np.arange(10))
    return out.getvalue()


def parquet() -> bytes:
    out = io.BytesIO()
    pq.write_table(pa.table({"a": MATRIX[:, 0], "b": MATRIX[:, 1], "y": MATRIX[:, 2]}), out, row_group_size=4)
    return out.getvalue()


CONTENT = {"libsvm": LIBSVM, "csv": CSV, "parquet": parquet(), "npy": npy(), "npz": npz()}
COMPRESS: dict[str, Callable[[bytes], bytes]] = {"bz2": bz2.compress, "gz": gzip.compress, "xz": lzma.compress}


def write(path: Path, content: bytes) -> str:
    path.write_bytes(content)
    return str(path)


def read_all(source: Source) -> list[RawRows]:
    return [block for fragment in source.fragments() for block in source.read(fragment)]


def same(a: list[RawRows], b: list[RawRows]) -> bool:
    def dense(block: RawRows) -> np.ndarray:
        return block.X if isinstance(block.X, np.ndarray) else block.X.toarray()

    return len(a) == len(b) and all(
        np.array_equal(dense(p), dense(q))
        and np.array_equal(present(p.y), present(q.y))
        and p.first_line == q.first_line
        for p, q in zip(a, b, strict=True)
    )


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("a.libsvm", "libsvm"),
        ("a.svm", "libsvm"),
        ("a.csv", "csv"),
        ("a.CSV", "csv"),
        ("a.pq", "parquet"),
        ("a.parquet", "parquet"),
        ("a.npy", "npy"),
        ("a.npz", "npz"),
        *[(name, kind) for kind in CONTENT for name in (f"{kind}-data", f"{kind}.t", f"{kind}.txt")],
    ],
)
def test_format_by_name_then_content(tmp_path: Path, name: str, kind: str) -> None:
    url = write(tmp_path / name, CONTENT[kind])
    assert opened(url).format == kind


@pytest.mark.parametrize("ending", COMPRESS)
@pytest.mark.parametrize("name", ["plain", "plain.t", "table.csv"])
def test_compressed_text_is_recognised(tmp_path: Path, ending: str, name: str) -> None:
    content = CSV if name.endswith("csv") else LIBSVM
    plain = opened(write(tmp_path / name, content))
    for file_name in (f"{name}.{ending}", f"no-ending-{name}"):
        packed = opened(write(tmp_path / file_name, COMPRESS[ending](content)))
        assert packed.format == plain.format
        assert same(read_all(packed), read_all(plain))


@pytest.mark.parametrize("kind", CONTENT)
def test_content_does_not_matter_when_the_format_is_given(tmp_path: Path, kind: str) -> None:
    url = write(tmp_path / "data.xyz", CONTENT[kind])
    assert opened(url, format="npy" if kind == "npz" else kind).format == kind
    assert opened(url).format == kind


@pytest.mark.parametrize("name", ["t.csv", "t.txt", "nameless"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
@pytest.mark.parametrize("delimiter", [",", "|"])
def test_csv_is_recognised_whatever_its_name(name: str, encoding: str, delimiter: str, tmp_path: Path) -> None:
    """In each encoding that is found out, and with times of the day, whose colons are those of LIBSVM text too."""
    text = "größe,um,y\n1,12:30,0\n2,13:00,1\n".replace(",", delimiter)
    source = opened(write(tmp_path / name, text.encode(encoding)))
    assert source.format == "csv"
    assert source.column_names == ("größe", "um")
    assert [present(block.y).tolist() for block in read_all(source)] == [[0.0, 1.0]]


def test_times_between_bars_are_no_pairs_of_libsvm_text(tmp_path: Path) -> None:
    source = opened(write(tmp_path / "t.txt", b"20010531 12:30:00|5|0\n20010601 12:31:00|6|1\n"))
    assert source.format == "csv"
    assert source.n_columns == 2


def test_delimiters(tmp_path: Path) -> None:
    for name, c in (("a.tsv", "\t"), ("a.csv", ";"), ("b.csv", "\t"), ("data", ";")):
        source = opened(write(tmp_path / name, CSV.replace(b",", c.encode())))
        assert source.column_names == ("a", "b")
    one = opened(write(tmp_path / "c.tsv", b"a,b,c\ty\n1\t2\n"))
    assert one.column_names == ("a,b,c",)


@pytest.mark.parametrize("kind", CONTENT)
def test_source_is_small_picklable_and_identified(tmp_path: Path, kind: str) -> None:
    url = write(tmp_path / f"a.{kind}", CONTENT[kind])
    source = opened(url, sizes=Sizes(64, 64))
    packed = pickle.dumps(source)
    assert len(packed) < 2000
    again = pickle.loads(packed)
    assert again == source
    assert again.url == url
    assert again.size == len(CONTENT[kind])
    assert again.identity() == {
        "size": len(CONTENT[kind]),
        "sha256": hashlib.sha256(CONTENT[kind]).hexdigest(),
    }
    assert same(read_all(again), read_all(source))
    for i, fragment in enumerate(source.fragments()):
        assert fragment.number == i
        assert type(fragment)(**json.loads(json.dumps(dataclasses.asdict(fragment)))) == fragment


def test_local_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    absolute = write(tmp_path / "a.libsvm", LIBSVM)
    monkeypatch.chdir(tmp_path)
    relative = opened("a.libsvm")
    assert relative.url == "a.libsvm"
    monkeypatch.chdir("/")  # as a worker may
    assert same(read_all(relative), read_all(opened(absolute)))
    assert same(read_all(opened(f"file://{absolute}")), read_all(opened(absolute)))
    (tmp_path / "a.libsvm").unlink()
    with pytest.raises(InputError, match=r"^a\.libsvm: no such file$"):
        read_all(relative)


@pytest.mark.parametrize("kind", [*CONTENT, "libsvm.bz2", "csv.gz"])
def test_any_fsspec_url(tmp_path: Path, kind: str) -> None:
    stem, _, ending = kind.partition(".")
    content = COMPRESS[ending](CONTENT[stem]) if ending else CONTENT[stem]
    local = opened(write(tmp_path / f"a.{kind}", content), sizes=Sizes(256, 64))
    url = f"memory://folder/a.{kind}"
    fsspec.filesystem("memory").pipe(f"/folder/a.{kind}", content)
    remote = opened(url, sizes=Sizes(256, 64))
    if kind != "csv":  # which is cut into ranges where it is local
        assert remote.fragments() == local.fragments()
    assert remote.format == local.format
    assert same(read_all(remote), read_all(local))
    identity = remote.identity()
    assert identity["size"] == len(content)
    assert identity == remote.identity()
    assert set(identity) == {"size", "ukey"}
    fsspec.filesystem("memory").pipe(f"/folder/a.{kind}", content + b"\n")
    assert find_file(url).identity() != identity
    fsspec.filesystem("memory").rm("/folder", recursive=True)


@pytest.mark.parametrize("url", ["missing.libsvm", "/no/such/dir/a.csv", "memory://none.libsvm"])
def test_missing_file(url: str) -> None:
    with pytest.raises(InputError) as error:
        opened(url)
    assert str(error.value) == f"{url}: no such file"


def test_what_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(InputError) as error:
        opened(str(tmp_path))
    assert str(error.value) == (
        f"{tmp_path}: found no data file in this folder, expected files of CSV, Parquet, Arrow, ORC, JSON lines, "
        "ARFF or SQLite"
    )
    with pytest.raises(InputError, match=r"^nosuch://a/b\.csv: cannot be read: Protocol not known: nosuch"):
        opened("nosuch://a/b.csv")
    with pytest.raises(InputError, match="cannot be read: Protocol not known: nosuch"):
        opened("nosuch://a/b.csv?signature=" + "0" * 5000)  # too long for a local name
    url = write(tmp_path / "empty.csv", b"")
    with pytest.raises(InputError) as error:
        opened(url)
    assert str(error.value) == f"{url}: the file is empty (0 bytes), expected rows of data"
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "a.csv").write_bytes(b"")
    (tmp_path / "folder" / "b.csv").write_text("a,y\n1,2\n")  # one of several may have no row
    assert [file.url for file in opened(str(tmp_path / "folder"), label="y").files] == [f"{tmp_path}/folder/b.csv"]
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="is no file but a pipe or a device, expected a file; "):
        find_file(str(tmp_path / "pipe"))
    with pytest.raises(InputError, match=r"unknown format 'xls', expected one of auto, csv, parquet, arrow, "):
        opened(url, format="xls")


def test_errors_of_a_remote_client(monkeypatch: pytest.MonkeyPatch) -> None:
    def info(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(type(fsspec.filesystem("memory")), "info", info)
    error: Exception = RuntimeError("Unable to locate\ncredentials")
    with pytest.raises(InputError) as caught:
        opened("memory://a.csv")
    words = "memory://a.csv: cannot be read: RuntimeError: Unable to locate credentials"
    assert str(caught.value) == words
    error = ConnectionError("no route to host")
    with pytest.raises(InputError) as caught:
        opened("memory://a.csv")
    assert str(caught.value) == "memory://a.csv: cannot be read: no route to host"


@pytest.mark.slow
@pytest.mark.parametrize("ending", COMPRESS)
def test_truncated(tmp_path: Path, ending: str) -> None:
    rng = np.random.default_rng(0)
    n = 25_000 if ending == "bz2" else 3000  # of bzip2, two blocks
    text = b"".join(b"1 1:%.17g 2:%.17g\n" % (a, b) for a, b in rng.random((n, 2)))
    packed = COMPRESS[ending](text)
    words = "truncated: the compressed data stop before their end marker; copy or download it again"
    for keep in (20, len(packed) // 2, len(packed) - 5):
        url = write(tmp_path / f"cut.libsvm.{ending}", packed[:keep])
        with pytest.raises(InputError) as error:
            read_all(opened(url))
        assert str(error.value) == f"{url}: {words}"


@pytest.mark.parametrize("ending", COMPRESS)
def test_damaged(tmp_path: Path, ending: str) -> None:
    packed = bytearray(COMPRESS[ending](np.random.default_rng(0).bytes(3000).hex().encode()))
    packed[500:600] = bytes(100)
    url = write(tmp_path / f"bad.libsvm.{ending}", bytes(packed))
    with pytest.raises(InputError) as error:
        read_all(opened(url))
    assert str(error.value).startswith(f"{url}: damaged: ")
    assert str(error.value).endswith("; copy or download it again")
    url = write(tmp_path / f"not.csv.{ending}", CSV)
    with pytest.raises(InputError, match=rf"not a \.{ending} file: it starts with b'a,b,cl', expected b"):
        opened(url)


def test_compressed_array(tmp_path: Path) -> None:
    url = write(tmp_path / "a.npy.gz", gzip.compress(npy()))
    with pytest.raises(InputError) as error:
        opened(url)
    assert str(error.value) == f"{url}: found a compressed .npy file, expected it uncompressed; decompress it first"


def test_unknown_content(tmp_path: Path) -> None:
    url = write(tmp_path / "image", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR")
    with pytest.raises(InputError) as error:
        opened(url)
    assert str(error.value) == (
        f"{url}: line 1, column 1: found b'\\x89PNG\\r\\n', expected CSV, Parquet, Arrow, ORC, JSON lines, ARFF, "
        "SQLite, LIBSVM text, NumPy or idx"
    )
    url = write(tmp_path / "prose.txt", b"hello world\n")
    with pytest.raises(InputError) as error:
        read_all(opened(url))
    assert str(error.value) == (
        f"{url}: line 1: found 'hello world', expected CSV, Parquet, Arrow, ORC, JSON lines, ARFF, SQLite, LIBSVM "
        "text, NumPy or idx; to read it as a table whose columns are divided by spaces: --delimiter space"
    )


def data_file(name: str) -> str:
    folder = os.environ.get("IKMAP_DATA_DIR")
    if not folder:
        pytest.skip("IKMAP_DATA_DIR is not set")
    path = Path(folder) / name
    if not path.exists():
        pytest.skip(f"{name} is not in IKMAP_DATA_DIR")
    return str(path)


@pytest.mark.slow
@pytest.mark.data
@pytest.mark.parametrize("name", ["a9a.bz2", "sector.t.scale.bz2", "usps.t.bz2"])
def test_equals_scikit_learn(tmp_path: Path, name: str) -> None:
    """The larger files are read up to their first megabyte, which is unpacked before."""
    path = data_file(name)
    with bz2.open(path) as stream:
        text = stream.read() if name == "a9a.bz2" else stream.read(1 << 20).rpartition(b"\n")[0]
    X, y = load_svmlight_file(io.BytesIO(text))
    for url in (*([path] if name == "a9a.bz2" else ()), write(tmp_path / "plain", text)):
        source = opened(url, n_columns=X.shape[1], sizes=Sizes(1 << 19, 150_000))
        blocks = read_all(source)
        assert np.array_equal(np.concatenate([b.y for b in blocks]), y)
        assert np.array_equal(np.concatenate([csr(b.X).data for b in blocks]), X.data)
        assert np.array_equal(np.concatenate([csr(b.X).indices for b in blocks]), X.indices)
        assert np.array_equal(np.concatenate([np.diff(csr(b.X).indptr) for b in blocks]), np.diff(X.indptr))


@pytest.mark.slow
@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "label", "shape", "first"),
    [
        ("electricity.csv.gz", None, (45_312, 8), "UP"),
        ("kddcup99.tsv.gz", None, (494_020, 41), 11.0),
        ("cpu_act.csv.gz", "usr", (8_192, 21), 90.0),
        ("spambase.csv.gz", None, (4_601, 57), 1.0),
        ("ctg.csv.gz", None, (2_126, 35), 9.0),
    ],
)
def test_real_tables(name: str, label: str | None, shape: tuple[int, int], first: object) -> None:
    source = opened(data_file(name), label=label)
    blocks = read_all(source)
    assert (sum(b.X.shape[0] for b in blocks), source.n_columns) == shape
    assert present(blocks[0].y)[0] == first
