"""``python -m tests.soaks.stream_tables``: a large table as a stream, killed and resumed, and as rows encoded before.

The table is flights-3m with ``--above 15`` and its columns as they come (a date, a number, two of 229 airports); a
seeded share of its cells is blanked, and it has a made-up column of weights. It is learned from

1. as CSV on standard input, and as a folder of Parquet files that grows;
2. as CSV on standard input again, killed (SIGKILL) in mid-stream and resumed;
3. as a folder of features: rows encoded beforehand by the encoder that the first run has fitted to its initial rows.

All of them have to give the same predictions, to the bit.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.csv
import pyarrow.parquet as pq

from ikmap.tables import RawTable
from pipeline.rows.encoding import load_encoder
from pipeline.sources import ReadRequest, open_source
from pipeline.sources.columns.request import TableRequest
from pipeline.sources.datasets.known import default_data_dir
from pipeline.storage.store import Store

FILE_ROWS = 200_000
BLANK = 0.03
"""Share of the cells of features that are blanked."""
ONLINE = "--learner ogd --partitioner iforest --t 32 --psi 64 --no-dask-report --quiet"
TABLE = "--label delay --above 15 --weight weight"


def table_of(path: Path, rows: int) -> pa.Table:
    """Return the first rows of the flights, with blanks and weights."""
    table = pq.read_table(path).slice(0, rows)
    rng = np.random.default_rng(0)
    for name in ("date", "distance", "origin", "destination"):
        blank = pa.array(rng.random(table.num_rows) < BLANK)
        column = table.column(name)
        k = table.schema.get_field_index(name)
        table = table.set_column(k, name, pa.compute.if_else(blank, pa.scalar(None, column.type), column))
    return table.append_column("weight", pa.array(rng.integers(1, 5, table.num_rows) / 2))


def in_files(table: pa.Table, folder: Path) -> None:
    """Write a table as a folder that has ended."""
    folder.mkdir()
    for k, start in enumerate(range(0, table.num_rows, FILE_ROWS)):
        pq.write_table(table.slice(start, FILE_ROWS), folder / f"{k:05d}.parquet", row_group_size=50_000)
    (folder / "_SUCCESS").touch()


def online(run: Path, words: Sequence[str], stdin: Path | None = None, kill_after: int | None = None) -> float:
    """Run on a stream; return its seconds. With `kill_after`, kill it when so many chunks have been learned from."""
    command = [sys.executable, "-m", "flows.online", "--run-dir", str(run), *words]
    started = time.perf_counter()
    with open(stdin or "/dev/null", "rb") as stream:
        process = subprocess.Popen(command, stdin=stream, start_new_session=True)
        if kill_after is not None:
            records = run / "records" / "stream"
            while process.poll() is None and len(list(records.glob("*"))) < kill_after:
                time.sleep(0.2)
            if process.poll() is not None:
                raise SystemExit("the run ended before it could be killed; give --kill-after fewer")
            os.killpg(process.pid, signal.SIGKILL)
        if process.wait() and kill_after is None:
            raise SystemExit(f"status {process.returncode}: {' '.join(command)}")
    return time.perf_counter() - started


def encoded(csv: Path, run: Path) -> pa.Table:
    """Return the rows of a CSV file as features, by the encoder of a run."""
    encoder = load_encoder(Store(run / "store.zarr"))
    request = ReadRequest(label="delay", table=TableRequest(above=15.0, weight="weight"))
    source = open_source(str(csv), "csv", request)
    parts = []
    for fragment in source.fragments():
        for block in source.read(fragment):
            X = encoder.features(RawTable(np.asarray(block.X), block.levels or (None,) * block.X.shape[1]))
            columns = {f"f{j}": np.asarray(X)[:, j] for j in range(X.shape[1])}
            parts.append(pa.table({**columns, "delay": block.y, "weight": block.weights}))
    return pa.concat_tables(parts)


def predictions(run: Path) -> str:
    """Return the digest of the predictions of a run."""
    digest = hashlib.sha256()
    for path in sorted((run / "predictions").glob("*")):
        if path.suffix != ".json":
            digest.update(path.read_bytes())
    return digest.hexdigest()


def main() -> int:
    """Do all of it, and say what came of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=3_000_000)
    parser.add_argument("--initial", type=int, default=100_000)
    parser.add_argument("--kill-after", type=int, default=8, help="records of the stream after which it is killed")
    parser.add_argument("--data-dir", type=Path, default=default_data_dir())
    wanted = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="ikmap-stream-"))
    try:
        table = table_of(wanted.data_dir / "flights-3m.parquet", wanted.rows)
        pa.csv.write_csv(table, folder / "rows.csv")
        in_files(table, folder / "files")
        common = [*ONLINE.split(), "--initial", str(wanted.initial)]
        piped = ["--input", "-", "--format", "csv", *TABLE.split(), *common]
        digests = {}
        seconds = online(folder / "piped", piped, folder / "rows.csv")
        digests["standard input"] = predictions(folder / "piped")
        print(f"standard input: {wanted.rows:,} rows in {seconds:.1f} s, {wanted.rows / seconds:,.0f} rows/s")
        seconds = online(folder / "listed", ["--input", str(folder / "files"), *TABLE.split(), *common])
        digests["a folder"] = predictions(folder / "listed")
        print(f"a folder: {seconds:.1f} s, {wanted.rows / seconds:,.0f} rows/s")
        online(folder / "killed", piped, folder / "rows.csv", wanted.kill_after)
        online(folder / "killed", piped, folder / "rows.csv")
        digests["killed and resumed"] = predictions(folder / "killed")
        in_files(encoded(folder / "rows.csv", folder / "piped"), folder / "features")
        words = ["--input", str(folder / "features"), "--label", "delay", "--weight", "weight", *common]
        seconds = online(folder / "encoded", words)
        digests["encoded beforehand"] = predictions(folder / "encoded")
        print(f"encoded beforehand: {seconds:.1f} s, {wanted.rows / seconds:,.0f} rows/s")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    for name, digest in digests.items():
        print(f"{digest[:16]}  {name}")
    same = len(set(digests.values())) == 1
    print("the same bits" if same else "NOT the same bits")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
