"""The store: what was written comes back, what was half-written counts as absent. And models in it."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast
from uuid import uuid4

import numpy as np
import pytest
import zarr
from zarr.abc.codec import BytesBytesCodec

from ikmap.partitioners import IForestPartitions, VoronoiPartitions
from ikmap.partitioners.voronoi import fit_voronoi
from pipeline.errors import Damaged, InputError
from pipeline.storage import durable, models
from pipeline.storage.arrays import ABSENT, ABSENT_FRACTION, compressors, document_of_array
from pipeline.storage.lru_cache import PROCESS
from pipeline.storage.models import load_model, save_model
from pipeline.storage.store import CHUNK_BYTES, Store
from tests import ROOT
from tests.support.calls import counted
from tests.support.narrow import present
from tests.support.runs import new_store

ARRAYS: dict[str, np.ndarray] = {
    "empty": np.zeros((0, 3)),
    "no columns": np.zeros((4, 0), dtype=np.int32),
    "zeros": np.zeros((7, 2), dtype=np.int32),
    "bytes": np.arange(256, dtype=np.uint8),
    "nan": np.array([[np.nan, np.inf], [-0.0, 5e-324]]),
    "long": np.array([2**63 - 1, -(2**63)], dtype=np.int64),
    "flags": np.array([True, False]),
    "cube": np.arange(24, dtype=np.float32).reshape(2, 3, 4),
}


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return new_store(tmp_path)


def files(store: Store, name: str) -> list[Path]:
    return [path for path in (Path(store.path) / name).rglob("*") if path.is_file() and path.name != "zarr.json"]


def test_a_group_comes_back_bit_for_bit(store: Store) -> None:
    written = store.write_group("a/b", ARRAYS, {"x": [1, None, "y"]})
    attributes, arrays = store.read_group("a/b")
    assert attributes["x"] == [1, None, "y"]
    assert arrays.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        assert arrays[name].dtype == array.dtype
        assert arrays[name].shape == array.shape
        assert arrays[name].tobytes() == array.tobytes()
    assert written == sum(array.nbytes for array in ARRAYS.values())


def test_chunks_are_bounded(store: Store) -> None:
    rows = 3 * CHUNK_BYTES // (8 * 100) + 5
    store.write_group("big", {"x": np.ones((rows, 100))}, {})
    array = store.open_arrays("big")["x"]
    assert array.chunks[1] == 100
    assert CHUNK_BYTES / 2 < array.chunks[0] * 100 * 8 <= CHUNK_BYTES


@pytest.mark.parametrize("dtype", ["bool", "int8", "int32", ">i4", "int64", "float32", "float64", "<U7", "M8[ns]"])
def test_documents_are_those_of_zarr(dtype: str, tmp_path: Path) -> None:
    """Ours are made from those of arrays of one element, which Zarr has made."""
    kind, absent = np.dtype(dtype), {"int32": ABSENT, "int64": ABSENT, "float64": ABSENT_FRACTION}
    layouts: list[tuple[tuple[int, ...], ...]] = [((5, 3), (2, 3)), ((0,), (1,)), ((4,), (4,)), ((4, 0), (4, 1))]
    layouts += [((), ()), *([((100, 3), (10, 3), (20, 3)), ((7,), (2,), (4,))] if dtype in absent else [])]
    for k, (shape, chunks, *shards) in enumerate(layouts):
        zarr.create_array(
            tmp_path / f"{k}",
            shape=shape,
            dtype=kind,
            chunks=chunks,
            shards=shards[0] if shards else None,
            compressors=compressors(kind),
            fill_value=absent[dtype] if shards else None,
        )
        document = json.loads((tmp_path / f"{k}" / "zarr.json").read_text())
        assert document_of_array(kind, shape, chunks, *shards) == document


def test_a_group_is_replaced_whole(store: Store) -> None:
    store.write_group("g", {"old": np.ones(3), "both": np.ones(3)}, {"old": 1})
    store.write_group("g", {"both": np.zeros(2)}, {"new": 2})
    attributes, arrays = store.read_group("g")
    assert "old" not in attributes
    assert list(arrays) == ["both"]
    assert arrays["both"].shape == (2,)


def test_what_is_not_there_is_none(store: Store) -> None:
    assert store.attributes("nothing") is None
    with pytest.raises(Damaged, match="nothing is damaged"):
        store.read_group("nothing")
    store.delete("nothing")


def test_a_group_killed_between_its_arrays_is_absent(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    replace = os.replace

    def killed(source: str, path: Path) -> None:
        if str(path).endswith("g/second/zarr.json"):
            raise KeyboardInterrupt
        replace(source, path)

    arrays = {"first": np.ones(3), "second": np.ones(3)}
    monkeypatch.setattr(os, "replace", killed)
    with pytest.raises(KeyboardInterrupt):
        store.write_group("g", arrays, {"x": 1})
    assert files(store, "g")
    assert store.attributes("g") is None
    with pytest.raises(Damaged):
        store.read_group("g")
    monkeypatch.undo()
    store.write_group("g", arrays, {"x": 1})
    assert store.read_group("g")[0]["x"] == 1


@pytest.mark.parametrize("removal", ["write_group", "delete"])
def test_a_group_killed_while_it_is_removed_is_absent(
    store: Store, monkeypatch: pytest.MonkeyPatch, removal: str
) -> None:
    """Files go in any order, but for the one that says that the group is complete."""
    store.write_group("g", {"x": np.ones(3)}, {})

    def killed(*args: Any) -> None:  # noqa: ARG001
        for path in files(store, "g"):
            path.unlink()
        raise OSError("killed")

    monkeypatch.setattr("shutil.rmtree", killed)
    with pytest.raises(OSError, match="killed"):
        store.write_group("g", {"x": np.ones(3)}, {}) if removal == "write_group" else store.delete("g")
    assert (Path(store.path) / "g" / "x" / "zarr.json").exists()
    assert store.attributes("g") is None


def test_delete_leaves_the_neighbours(store: Store) -> None:
    for name in ("m/a", "m/a2"):
        store.write_group(name, {"x": np.ones(1)}, {})
    store.delete("m/a")
    assert store.attributes("m/a") is None
    assert store.attributes("m/a2") is not None


def sharded(store: Store, rows: int = 25, shard: int = 8, chunk: int = 4) -> str:
    store.create_sharded("codes", (rows, 3), np.int32, shard_rows=shard, chunk_rows=chunk)
    return "codes"


def test_shards_and_chunks_are_as_asked(store: Store) -> None:
    sharded(store)
    array = zarr.open_array(store.path, path="codes", mode="r")
    assert array.shards == (8, 3)
    assert array.chunks == (4, 3)
    codec, check = (cast(BytesBytesCodec, each) for each in array.compressors)
    assert check.to_dict() == {"name": "crc32c"}
    assert array.fill_value == -(2**31)
    assert codec.to_dict()["configuration"] == {
        "typesize": 4, "cname": "lz4", "clevel": 5, "shuffle": "bitshuffle", "blocksize": 0,
    }  # fmt: skip


def test_each_shard_is_one_object_and_zeros_are_written(store: Store) -> None:
    name = sharded(store)
    for start in range(0, 25, 8):
        store.write_shards(name, start, np.zeros((min(8, 25 - start), 3), dtype=np.int32))
    assert len(files(store, name)) == 4
    assert (np.asarray(zarr.open_array(store.path, path=name, mode="r")[...]) == 0).all()


@pytest.mark.parametrize(("start", "rows"), [(0, 8), (8, 16), (24, 1), (0, 25), (16, 9)])
def test_whole_shards_are_written_and_nothing_else(store: Store, start: int, rows: int) -> None:
    name = sharded(store)
    store.write_shards(name, 0, np.full((25, 3), -7, dtype=np.int32))
    values = np.arange(rows * 3, dtype=np.int32).reshape(rows, 3)
    store.write_shards(name, start, values)
    expected = np.full((25, 3), -7, dtype=np.int32)
    expected[start : start + rows] = values
    assert np.array_equal(zarr.open_array(store.path, path=name, mode="r")[...], expected)


@pytest.mark.parametrize(("start", "rows"), [(4, 4), (0, 7), (0, 9), (1, 24), (8, 15), (24, 2), (24, 8)])
def test_parts_of_shards_are_refused(store: Store, start: int, rows: int) -> None:
    name = sharded(store)
    before = np.full((25, 3), -7, dtype=np.int32)
    store.write_shards(name, 0, before)
    with pytest.raises(ValueError, match="codes"):
        store.write_shards(name, start, np.zeros((rows, 3), dtype=np.int32))
    assert np.array_equal(zarr.open_array(store.path, path=name, mode="r")[...], before)


def test_an_array_is_kept_when_made_again_and_replaced_when_it_is_another(store: Store) -> None:
    name = sharded(store)
    store.write_shards(name, 0, np.ones((8, 3), dtype=np.int32))
    sharded(store)
    assert len(files(store, name)) == 1
    sharded(store, shard=4)
    assert files(store, name) == []
    store.create_sharded(name, (25, 3), np.int64, shard_rows=4, chunk_rows=4)
    assert zarr.open_array(store.path, path=name, mode="r").dtype == np.int64


def test_attributes_of_a_group_with_members(store: Store) -> None:
    store.write_group("data/part", {"x": np.ones(2)}, {})
    assert store.attributes("data") is None
    store.set_attributes("data", {"a": 1})
    store.set_attributes("data", {"b": 2})
    attributes = store.attributes("data")
    assert attributes is not None
    assert (attributes["a"], attributes["b"]) == (1, 2)
    assert store.read_group("data/part")[1]["x"].tolist() == [1, 1]


def test_create_keeps_what_is_there(store: Store) -> None:
    store.write_group("g", {"x": np.ones(2)}, {})
    store.create()
    assert store.attributes("g") is not None


def test_what_a_stopped_process_left_is_flushed_before_it_is_promised(store: Store) -> None:
    """It may have been stopped before it flushed anything."""

    def make() -> None:
        store.create_sharded("g/x", (4,), np.int32, shard_rows=2, chunk_rows=2)

    def stopped() -> None:
        with durable.promised():
            make()
            store.write_group("h", {"y": np.ones(2)}, {})
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stopped()
    with durable.promised():
        make()
        store.keep("h")
        paths = durable.taken()
    assert {f"{store.path}/{name}" for name in ("g/x/zarr.json", "g/zarr.json", "h/y/c/0", "h/zarr.json")} <= paths


def test_a_shard_that_is_cut_short_is_said_to_be(store: Store) -> None:
    store.create_sharded("g/x", (4,), np.int32, shard_rows=2, chunk_rows=2)
    store.write_shards("g/x", 0, np.arange(4, dtype=np.int32))
    (Path(store.path) / "g/x/c/1").write_bytes(b"")
    with pytest.raises(Damaged, match=r"g/x/c/1 is damaged .it is cut short.$"):
        store.read_group("g")


@pytest.fixture(autouse=True)
def _empty_cache() -> Iterator[None]:
    PROCESS.forget()
    yield
    PROCESS.forget()


def a_model(k: int = 0) -> VoronoiPartitions:
    return fit_voronoi(np.arange(20.0).reshape(10, 2) + k, np.array([[0, 3, 5], [1, 2, 9]]))


def test_a_model_comes_back_and_is_read_once(store: Store) -> None:
    model = a_model()
    content_hash = save_model(store, "m/a", model)
    assert content_hash == model.content_hash
    assert load_model(store, "m/a", VoronoiPartitions, content_hash) is model
    PROCESS.forget()
    found = load_model(store, "m/a", VoronoiPartitions, content_hash)
    assert found.content_hash == content_hash
    with counted(Store.read_group) as reads:
        assert load_model(store, "m/a", VoronoiPartitions, content_hash) is found
    assert not reads.number


def test_another_model_than_asked_for_is_refused(store: Store) -> None:
    save_model(store, "m/a", a_model())
    PROCESS.forget()
    with pytest.raises(Damaged, match=r"m/a is damaged \(its content hash is [0-9a-f]{64}, not 0000\)"):
        load_model(store, "m/a", VoronoiPartitions, "0000")
    with pytest.raises(TypeError, match="found a anne model, expected IForestPartitions"):
        load_model(store, "m/a", IForestPartitions)
    with pytest.raises(Damaged, match="m/b"):
        load_model(store, "m/b", VoronoiPartitions)


def test_a_damaged_model_is_refused(store: Store) -> None:
    content_hash = save_model(store, "m/a", a_model())
    PROCESS.forget()
    array = zarr.open_array(store.path, path="m/a/centers", mode="r+")
    array[1, 0] = float(np.asarray(array[1, 0])) + 2.0**-40
    for asked in (content_hash, None):
        with pytest.raises(Damaged, match="content hash"):
            load_model(store, "m/a", VoronoiPartitions, asked)


def test_few_models_are_kept_and_the_latest_used_ones(store: Store) -> None:
    hashes = [save_model(store, f"m/{k}", a_model(k)) for k in range(models.CACHED_MODELS + 1)]
    assert list(models._kept) == hashes[1:]
    first = load_model(store, "m/0", VoronoiPartitions, hashes[0])
    for k in range(1, models.CACHED_MODELS):
        load_model(store, f"m/{k}", VoronoiPartitions, hashes[k])
    assert load_model(store, "m/0", VoronoiPartitions, hashes[0]) is first
    load_model(store, f"m/{models.CACHED_MODELS}", VoronoiPartitions, hashes[-1])
    assert list(models._kept) == [*hashes[2:-1], hashes[0], hashes[-1]]


@pytest.mark.slow
def test_what_is_kept_open_follows_what_others_write(store: Store) -> None:
    """Another process writes, and nothing tells this one."""
    code = (
        f"import numpy as np; from pipeline.storage.store import Store; path = {store.path!r}\n"
        "while line := input(): exec('Store(path).' + line); print('done', flush=True)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
    ) as other:

        def elsewhere(line: str) -> None:
            print(line, file=other.stdin, flush=True)
            assert present(other.stdout).readline() == "done\n"

        _written_elsewhere(store, elsewhere)
        print(file=other.stdin, flush=True)
    assert other.returncode == 0


def _written_elsewhere(store: Store, elsewhere: Callable[[str], None]) -> None:
    store.write_group("g", {"x": np.ones(3)}, {"n": 1})
    assert store.open_arrays("g")["x"] is store.open_arrays("g")["x"]
    elsewhere("set_attributes('g', {'n': 2})")
    assert (store.attributes("g") or {})["n"] == 2
    elsewhere("write_group('g', {'x': np.full(5, 7), 'y': np.zeros(2)}, {})")
    arrays = store.open_arrays("g")
    assert arrays.keys() == {"x", "y"}
    assert np.asarray(arrays["x"][...]).tolist() == [7] * 5
    name = sharded(store)
    store.write_shards(name, 0, np.ones((8, 3), dtype=np.int32))
    elsewhere(f"create_sharded({name!r}, (9, 3), np.int32, shard_rows=3, chunk_rows=3)")
    assert len(store.write_shards(name, 3, np.ones((6, 3), dtype=np.int32))) == 2
    elsewhere("delete('g')")
    assert store.attributes("g") is None


def test_groups_behind_a_url_follow_what_others_write() -> None:
    """Nothing tells cheaply whether a remote group has changed, so none is kept open."""
    store = Store(f"memory://{uuid4().hex}")
    store.create()
    for k in range(3):
        store.write_group("g", {"x": np.full(4, k)}, {"k": k})
        attributes, arrays = store.read_group("g")
        assert attributes["k"] == k
        assert (arrays["x"] == k).all()
        assert (np.asarray(store.open_arrays("g")["x"][:]) == k).all()
    store.delete("g")
    assert store.attributes("g") is None


def test_shards_behind_a_url() -> None:
    store = Store(f"memory://{uuid4().hex}")
    store.create()
    store.create_sharded("c/codes", (5, 2), np.int32, shard_rows=4, chunk_rows=2)
    (output,) = store.write_shards("c/codes", 0, np.ones((4, 2), dtype=np.int32))
    assert store.holds(output)
    assert not store.holds(output.replace("/c/0", "/c/1"))


def test_threads_share_what_is_kept_open(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipeline.storage.store.KEPT_OPEN", 3)  # emptied all the time
    for k in range(5):
        store.write_group(f"g{k}", {"x": np.full(4, k)}, {"k": k})

    def look(k: int) -> bool:
        name = f"g{k % 5}"
        found = store.attributes(name)
        values = np.asarray(store.open_arrays(name)["x"][:])
        return found is not None and found["k"] == k % 5 and bool((values == k % 5).all())

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(look, range(200)))
    store.write_group("g0", {"x": np.full(4, 9)}, {"k": 9})
    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(lambda _: (store.attributes("g0") or {})["k"] == 9, range(20)))


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "\ufffd", '{"zarr_format": 3, "node_type": "grouq"}', '{"zarr_format": 2}']
)
def test_a_damaged_group_above_hinders_no_write(store: Store, text: str) -> None:
    """Zarr reads the documents above what it writes, and ends in errors of many types where it cannot."""
    store.write_group("above/first", {"x": np.ones(2)}, {})
    (Path(store.path) / "above" / "zarr.json").write_text(text)
    (Path(store.path) / "zarr.json").write_text(text)
    store.write_group("above/second", {"x": np.zeros(2)}, {})
    store.create_sharded("above/third/y", (4,), np.int32, shard_rows=2, chunk_rows=2)
    assert store.read_group("above/second")[1]["x"].tolist() == [0, 0]
    assert sorted(name for name, _ in zarr.open_group(store.path, mode="r").members(max_depth=None)) == [
        "above", "above/first", "above/first/x", "above/second", "above/second/x", "above/third", "above/third/y",
    ]  # fmt: skip


def test_a_model_of_a_package_that_is_not_there_is_no_damage(store: Store) -> None:
    store.write_group("m", {}, {"model": {"kind": "strange", "version": 1}, "content_hash": "0"})
    with pytest.raises(InputError, match=r"store.zarr/m: unknown kind of model 'strange'; known are") as error:
        load_model(store, "m", IForestPartitions)
    assert not isinstance(error.value, Damaged)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ValueError("wrong\nchecksum"), "x is damaged (its checksum is wrong)"),
        (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"), "x is damaged ('utf-8' codec can't decode byte 0xff"),
        (KeyError("y"), "x is damaged (KeyError: 'y')"),
        (TypeError(), "x is damaged (TypeError)"),
        (OSError(errno.EIO, "Input/output error"), "x is damaged (cannot be read: Input/output error)"),
    ],
)
def test_whatever_goes_wrong_while_something_is_read_names_it(error: Exception, said: str) -> None:
    with pytest.raises(Damaged) as caught, durable.reading("x"):
        raise error
    assert str(caught.value).startswith(said)
    assert "\n" not in str(caught.value)
    assert caught.value.__suppress_context__
    assert caught.value.__cause__ is None


@pytest.mark.parametrize(
    "error",
    [FileNotFoundError(), MemoryError(), PermissionError(errno.EACCES, "no"), InputError("x"), Damaged("y", "")],
)
def test_what_is_no_damage_stays_as_it_is(error: Exception) -> None:
    with pytest.raises(type(error)) as caught, durable.reading("x"):
        raise error
    assert caught.value is error
