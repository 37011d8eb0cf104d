"""Data files of every format that is read, damaged ones made of them, and what reading one ends in."""

from __future__ import annotations

import bz2
import datetime
import gzip
import io
import json
import lzma
import multiprocessing
import random
import shutil
import signal
import sqlite3
import struct
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.orc
import pyarrow.parquet as pq
import scipy.sparse as sp

from flows.options.batch import BatchOptions
from flows.runs.batch import batch_params
from ikmap.json_values import JsonObject
from pipeline.errors import InputError
from pipeline.record_types import PartRecord, Result
from pipeline.sources.datasets.registry import ResolvedDataset
from pipeline.stages.label import find_task
from pipeline.stages.task import requested_task
from tests.support.one_process import Command, one_process

ROWS = 120
SECONDS = 120.0
"""A reader that takes longer hangs."""
STARTING_SECONDS = 600.0
HUGE = 512 << 20
"""Bytes of memory that no file of a few kB may take."""

AS_A_RUN = 10
"""Every so many files are also stored."""

_RNG = np.random.default_rng(0)
_X = np.round(_RNG.normal(size=(ROWS, 6)) * (_RNG.random((ROWS, 6)) < 0.8), 2)
_Y = (_X[:, 0] + _X[:, 1] > 0).astype(np.int64)
_IMAGES = _RNG.integers(0, 256, (ROWS, 3, 4), dtype=np.uint8)

_BYTES = (0, 255, 127, 128, 10, 13, 34, 44, 45, 48, 57, 32)
_WORDS = (b"nan", b"1e999", b"\xff\xfe", b"\0", b"True", b"-1", b"2**62", b"9" * 20, b'"', b"\xe2\x80\xae", b"(((((")
_RUNS = (b"\xff", b"\0", b"\x7f")
_NUMBERS = (-1, 0, 1 << 20, (1 << 31) - 1, -(1 << 31), 1 << 40, (1 << 62) + 7)


def _numbers() -> pa.Table:
    columns = {f"x{j}": pa.array(column) for j, column in enumerate(_X[:, :4].T)}
    whole = {"n": pa.array(_X[:, 4].astype(np.int32), mask=_X[:, 4] == 0), "yes": pa.array(_X[:, 5] > 0)}
    return pa.table({**columns, **whole, "y": _Y})


def _words() -> pa.Table:
    town = pa.array([None if k % 50 == 3 else f"t{v}" for k, v in enumerate(_RNG.integers(0, 20, ROWS))])
    coded = pa.array([f"c{v}" for v in _RNG.integers(0, 5, ROWS)]).dictionary_encode()
    when = pa.array(_RNG.integers(0, 1 << 30, ROWS), pa.timestamp("s"))
    label = pa.array(["yes" if y else "no" for y in _Y])
    return pa.table({"x": _X[:, 0], "town": town, "coded": coded, "when": when, "y": label})


def _written(write: Callable[..., Any], table: pa.Table, **options: Any) -> bytes:
    out = io.BytesIO()
    write(table, out, **options)
    return out.getvalue()


def _ipc(table: pa.Table, compression: str | None = None) -> bytes:
    out = io.BytesIO()
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_file(out, table.schema, options=options) as writer:
        writer.write_table(table, max_chunksize=50)
    return out.getvalue()


def _stream(table: pa.Table) -> bytes:
    out = io.BytesIO()
    with pa.ipc.new_stream(out, table.schema) as writer:
        writer.write_table(table, max_chunksize=50)
    return out.getvalue()


def _plain_words() -> pa.Table:
    """Words without codes, which ORC does not have."""
    words = _words()
    place = words.column_names.index("coded")
    return words.set_column(place, "coded", words["coded"].cast(pa.string()))


def _json_lines(table: pa.Table) -> bytes:
    return "".join(json.dumps(row, default=str) + "\n" for row in table.to_pylist()).encode()


def _arff(table: pa.Table) -> bytes:
    """Return a table as ARFF: numbers are numeric, all else is nominal or a date."""
    lines = ["@relation small"]
    columns = []
    for name, column in zip(table.column_names, table.columns, strict=True):
        cells = column.to_pylist()
        if isinstance(cells[0], str):
            kind = "{" + ",".join(sorted({cell for cell in cells if cell is not None})) + "}"
        else:
            kind = "date 'yyyy-MM-dd HH:mm:ss'" if pa.types.is_timestamp(column.type) else "numeric"
        lines.append(f"@attribute {name} {kind}")
        cells = [int(cell) if isinstance(cell, bool) else cell for cell in cells]
        columns.append(["?" if cell is None else f"'{cell}'" if kind[0] == "d" else str(cell) for cell in cells])
    rows = map(",".join, zip(*columns, strict=True))
    return "\n".join([*lines, "@data", *rows, ""]).encode()


def _sqlite(table: pa.Table) -> bytes:
    types = {"double": "real", "int32": "integer", "int64": "integer", "bool": "boolean", "timestamp[s]": "datetime"}
    declared = ", ".join(f'"{field.name}" {types.get(str(field.type), "text")}' for field in table.schema)
    rows = [tuple(str(c) if isinstance(c, datetime.datetime) else c for c in row.values()) for row in table.to_pylist()]
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute(f"create table rows ({declared})")
        connection.executemany(f"insert into rows values ({', '.join('?' * table.num_columns)})", rows)
        connection.commit()
        return bytes(connection.serialize())


def _saved(save: Callable[..., Any], *arrays: Any, **named: Any) -> bytes:
    out = io.BytesIO()
    save(out, *arrays, **named)
    return out.getvalue()


def _csr() -> bytes:
    matrix = sp.csr_array(_X)
    parts = {name: getattr(matrix, name) for name in ("data", "indices", "indptr")}
    return _saved(np.savez, **parts, shape=np.array(matrix.shape), y=_Y)


def idx(array: np.ndarray) -> bytes:
    """Return an array as an idx file, as the MNIST digits are distributed."""
    codes = {"u1": 8, "i1": 9, "i2": 11, "i4": 12, "f4": 13, "f8": 14}
    code = codes[array.dtype.str[1:]]
    shape = struct.pack(f">{array.ndim}I", *array.shape)
    return bytes([0, 0, code, array.ndim]) + shape + array.astype(array.dtype.newbyteorder(">")).tobytes()


def _text(table: pa.Table, comma: str) -> bytes:
    names, columns = table.column_names, [column.to_pylist() for column in table.columns]
    rows = [comma.join("" if cell is None else str(cell) for cell in row) for row in zip(*columns, strict=True)]
    return "\n".join([comma.join(names), *rows, ""]).encode()


def _libsvm() -> bytes:
    rows = (f"{y} qid:3 " + " ".join(f"{j + 1}:{v:g}" for j, v in enumerate(x) if v) for x, y in zip(_X, _Y))  # noqa: B905
    return "\n".join([*rows, ""]).encode()


_PARAMS = batch_params(BatchOptions(t=2, psi=2, learner=("ogd",)))
_PAGES = {"write_page_checksum": True, "data_page_size": 256, "row_group_size": 50}
FILES: dict[str, Callable[[], dict[str, bytes]]] = {
    "arrow": lambda: {"a.arrow": _ipc(_numbers())},
    "arrow words": lambda: {"a.arrow": _ipc(_words())},
    "arrow lz4": lambda: {"a.arrow": _ipc(_words(), "lz4")},
    "arrow feather zstd": lambda: {
        "a.feather": _written(pa.feather.write_feather, _words(), compression="zstd", chunksize=50)
    },
    "parquet": lambda: {"a.parquet": _written(pq.write_table, _numbers(), row_group_size=50, compression="none")},
    "parquet words": lambda: {"a.parquet": _written(pq.write_table, _words(), row_group_size=50, compression="none")},
    "parquet snappy": lambda: {"a.parquet": _written(pq.write_table, _words(), row_group_size=50)},
    "parquet checksums": lambda: {"a.parquet": _written(pq.write_table, _words(), **_PAGES)},
    "arrow stream": lambda: {"a.arrow": _stream(_words())},
    "orc": lambda: {"a.orc": _written(pa.orc.write_table, _numbers(), compression="uncompressed")},
    "orc words": lambda: {"a.orc": _written(pa.orc.write_table, _plain_words(), stripe_size=1024)},
    "json lines": lambda: {"a.jsonl": _json_lines(_numbers())},
    "json lines words": lambda: {"a.ndjson": _json_lines(_words())},
    "json lines gz": lambda: {"a.jsonl.gz": gzip.compress(_json_lines(_words()))},
    "arff": lambda: {"a.arff": _arff(_numbers())},
    "arff words": lambda: {"a.arff": _arff(_words())},
    "sqlite": lambda: {"a.sqlite": _sqlite(_numbers())},
    "sqlite words": lambda: {"a.db": _sqlite(_words())},
    "csv": lambda: {"a.csv": _text(_numbers(), ",")},
    "csv words": lambda: {"a.tsv": _text(_words(), "\t")},
    "csv gz": lambda: {"a.csv.gz": gzip.compress(_text(_words(), ","))},
    "csv bz2": lambda: {"a.csv.bz2": bz2.compress(_text(_words(), ";"))},
    "npz": lambda: {"a.npz": _saved(np.savez, X=_X, y=_Y)},
    "npz deflated": lambda: {"a.npz": _saved(np.savez_compressed, X=_X.astype("f4"), y=np.array(["no", "yes"])[_Y])},
    "npz sparse": lambda: {"a.npz": _csr()},
    "libsvm": lambda: {"a.libsvm": _libsvm()},
    "libsvm gz": lambda: {"a.libsvm.gz": gzip.compress(_libsvm())},
    "libsvm bz2": lambda: {"a.libsvm.bz2": bz2.compress(_libsvm())},
    "libsvm xz": lambda: {"a.libsvm.xz": lzma.compress(_libsvm())},
    "npy": lambda: {"a.npy": _saved(np.save, np.column_stack([_X, _Y]))},
    "idx": lambda: {"a-images-idx3-ubyte": idx(_IMAGES), "a-labels-idx1-ubyte": idx(_Y.astype("u1"))},
    "idx gz": lambda: {
        "a-images-idx3-ubyte.gz": gzip.compress(idx(_IMAGES)),
        "a-labels-idx1-ubyte.gz": gzip.compress(idx(_Y.astype("u1"))),
    },
}
"""Files of a small table, by kind; the first is what is read, and those beside it belong to it."""


def mutated(content: bytes, draw: random.Random) -> bytes:
    """Return the content with a few flipped bits, other bytes, and pieces that are missing, doubled, moved or new."""
    found = bytearray(content)
    for _ in range(draw.choice([1, 1, 2, 4])):
        if not found:
            break
        at, n = draw.randrange(len(found)), draw.choice([2, 4, 8])
        begin = draw.randrange(len(found))
        match draw.randrange(10):
            case 0 | 1:
                found[at] ^= 1 << draw.randrange(8)
            case 2:
                found[at] = draw.choice(_BYTES)
            case 3:
                del found[at : at + n]
            case 4:
                found[at:at] = found[begin : begin + n]
            case 5:
                del found[at:]
            case 6:
                found[at : at + n] = draw.choice(_RUNS) * n
            case 7:
                found[at:at] = draw.choice(_WORDS)
            case 8:
                found[at : at + 8 * n] = found[begin : begin + 8 * n]
            case 9:
                found[at & ~7 : (at & ~7) + 8] = (draw.choice(_NUMBERS) & ((1 << 64) - 1)).to_bytes(8, "little")
    return bytes(found)


def write_mutant(kind: str, number: int, seed: int, folder: Path) -> Path:
    """Write the files of a kind, one of them damaged, and return the one that is to be read; -1: none is damaged."""
    files = FILES[kind]()
    draw = random.Random(f"{seed} {kind} {number}")
    damaged = draw.choice(list(files)) if number >= 0 else None
    for name, content in files.items():
        folder.joinpath(name).write_bytes(mutated(content, draw) if name == damaged else content)
    return folder / next(iter(files))


@dataclass(frozen=True)
class Outcome:
    """What reading a file has ended in.

    Attributes
    ----------
    what : {"read", "refused", "not one line", "exception", "died", "hung", "memory"}
    said : str
        The message, the exception, or the signal.
    """

    what: str
    said: str = ""

    @property
    def good(self) -> bool:
        return self.what in ("read", "refused")


class _IsStored(Exception):
    """The rows are in the store, and the run need not go on."""


def _stored(name: str, work: Callable[[], Result]) -> Result:
    work()
    raise _IsStored(name)


def _part(found: JsonObject) -> PartRecord:
    """Return the record of a part of which only its labels matter."""
    return {"name": "", "rows": 0, "columns": 0, "nnz": 0, "found": found}


def _rows(path: Path) -> None:
    """Read a file as a worker does, and find out what is learned from its labels."""
    data = ResolvedDataset(name="damaged", train_url=str(path))
    kind = requested_task(_PARAMS, data)
    source, _ = data.sources
    source.identity()
    source.least_rows()
    found = [
        kind.read(block.y, block.X.shape[0])[1] for fragment in source.fragments() for block in source.read(fragment)
    ]
    find_task(source.url, [_part(part) for part in found], data, _PARAMS, lambda _: None)


def _store(path: Path) -> None:
    """Do what a run does on its way to encoded rows in the store."""
    options = BatchOptions(input=str(path), t=2, psi=2, learner=("ogd",))
    with tempfile.TemporaryDirectory() as folder, one_process(), suppress(_IsStored):
        Command(options).run(Path(folder, "run"), _stored)


def read_file(path: Path, *, as_a_run: bool) -> Outcome:
    """Read a file in this process; as a run does that stores what it reads, or, ten times as fast, only read it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            (_store if as_a_run else _rows)(path)
    except InputError as error:
        said = str(error)
        return Outcome("not one line" if "\n" in said or len(said) > 2000 else "refused", said)
    except Exception as error:
        return Outcome("exception", f"{type(error).__name__}: {error}")
    return Outcome("read")


def read_or_store(path: Path, number: int) -> Outcome:
    """Read a file; every tenth one as a run does."""
    return read_file(path, as_a_run=number % AS_A_RUN == 0)


type Read = Callable[[Path, int], Outcome]
"""Reads a file with a number."""


def _peak(reset: bool) -> int:
    """Return the most memory that this process had since the last reset, in bytes; 0 where the system does not tell."""
    try:
        if reset:
            Path("/proc/self/clear_refs").write_text("5")
        status = Path("/proc/self/status").read_text()
    except OSError:
        return 0
    return 1024 * int(status.partition("VmHWM:")[2].split()[0])


def _child(kind: str, numbers: range, seed: int, read: Read, told: Connection) -> None:
    told.send(None)  # the code is loaded, which takes long where every core has much to do
    with tempfile.TemporaryDirectory() as folder:
        for number in numbers:
            shutil.rmtree(folder)
            Path(folder).mkdir()
            path = write_mutant(kind, number, seed, Path(folder))
            before = _peak(reset=True)
            outcome = read(path, number)
            if (taken := _peak(reset=False) - before) > HUGE:
                outcome = Outcome("memory", f"{taken >> 20} MiB; {outcome.what} {outcome.said}")
            told.send(outcome)


def outcomes(kind: str, mutants: int, seed: int, read: Read = read_or_store) -> Iterator[tuple[int, Outcome]]:
    """Read the undamaged file (number -1), then damaged ones, in a process that may die."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    number = -1
    while number < mutants:
        here, there = context.Pipe(duplex=False)
        process = context.Process(target=_child, args=(kind, range(number, mutants), seed, read, there))
        process.start()
        there.close()
        if here.poll(STARTING_SECONDS):
            here.recv()
        while number < mutants:
            if not here.poll(SECONDS):
                outcome, alive = Outcome("hung", f"{SECONDS:g} s"), False
            else:
                try:
                    outcome, alive = here.recv(), True
                except EOFError:
                    process.join()
                    code = process.exitcode or 0
                    said = signal.Signals(-code).name if code < 0 else f"status {code}"
                    outcome, alive = Outcome("died", said), False
            yield number, outcome
            number += 1
            if not alive:
                break
        process.kill()
        process.join()
        here.close()
