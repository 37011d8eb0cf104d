"""Tables as files have them, for benchmarks that begin with words, dates and missing cells."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import Options
from pipeline.errors import InputError

TRAIN, TEST = "train.parquet", "test.parquet"
TEST_SHARE = 0.2


@dataclass(frozen=True)
class TableSet:
    """A table, and what is to be learned from it.

    Attributes
    ----------
    name : str
    file : str
        In the data directory.
    label : str
    numbers : bool
        The label is a number to predict; else a class.
    above : float, optional
        Two classes: whether the label is above this.
    categories : tuple of str
        Columns whose numbers are codes of categories.
    rows : int, optional
        So many rows are drawn of a larger table.
    time : str
        Column by which test rows come later than all training rows; empty: they are drawn at random.
    seeds : int
        So many splits, with the mean of their figures.
    drop : tuple of str
        Columns that give the label away.
    options : str
        Of a run beside the one with the default options; they were found by cross-validation on training rows.
    """

    name: str
    file: str
    label: str
    numbers: bool = False
    above: float | None = None
    categories: tuple[str, ...] = ()
    rows: int | None = None
    time: str = ""
    seeds: int = 1
    drop: tuple[str, ...] = ()
    options: str = ""
    least_rows: int = field(default=10)
    """Of a class; rows of rarer ones are left out, so that every class is on both sides."""


FLIGHTS: dict[str, Any] = {"file": "flights-3m.parquet", "label": "delay"}
SAMPLE = 200_000
LATE, DELAY = "--psi 1024 --C 2", "--psi 1024 --C 0.5"
SETS = {
    one.name: one
    for one in (
        TableSet("adult", "adult.csv.gz", "income", seeds=3, options="--psi 1024 --max-depth 5 --t 1000 --C 8"),
        TableSet("california", "california.csv.gz", "MedHouseVal", numbers=True, seeds=2, options="--t 1000"),
        TableSet("kddcup99", "kddcup99.tsv.gz", "target", categories=("Atr-1", "Atr-2", "Atr-3"), rows=100_000),
        TableSet("flights", **FLIGHTS, above=15, rows=SAMPLE, options=LATE),
        TableSet("flights-later", **FLIGHTS, above=15, rows=SAMPLE, time="date", options=LATE),
        TableSet("delay", **FLIGHTS, numbers=True, rows=SAMPLE, options=DELAY),
        TableSet("delay-later", **FLIGHTS, numbers=True, rows=SAMPLE, time="date", options=DELAY),
        # All rows: minutes for each side, only by name.
        TableSet("flights-3m", **FLIGHTS, above=15, options=LATE),
        TableSet("flights-3m-later", **FLIGHTS, above=15, time="date", options=LATE),
        TableSet("delay-3m", **FLIGHTS, numbers=True, options=DELAY),
        # Only numbers, for the choice of encodings.
        TableSet("cpu_act", "cpu_act.csv.gz", "usr", numbers=True),
        TableSet("electricity", "electricity.csv.gz", "class"),
        TableSet("spambase", "spambase.csv.gz", "class"),
        TableSet("ctg", "ctg.csv.gz", "Class", drop=tuple(f"V{k}" for k in range(26, 36))),
        TableSet("flights-late", "flights-late.parquet", "late"),
    )
}
USUAL = ("adult", "california", "kddcup99", "flights", "flights-later", "delay", "delay-later")


def read_table(of: TableSet, options: Options, most_rows: int | None = None) -> Any:
    """The table, as Arrow has it, with missing cells as nulls and the label as it is to be learned.

    Raises
    ------
    InputError
        The data directory has no such file.
    """
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.csv
    import pyarrow.parquet

    path = options.data_dir / of.file
    if not path.exists():
        raise InputError(f"{path}: found no such file, expected it in the data directory (--data-dir)")
    if ".parquet" in of.file:
        table = pyarrow.parquet.read_table(path)
    else:
        table = pyarrow.csv.read_csv(
            path,
            parse_options=pyarrow.csv.ParseOptions(delimiter="\t" if ".tsv" in of.file else ","),
            convert_options=pyarrow.csv.ConvertOptions(
                null_values=["", "?", "NA"], strings_can_be_null=True, quoted_strings_can_be_null=True
            ),
        )
    table = table.drop_columns(list(of.drop))
    most = min(of.rows or table.num_rows, most_rows or table.num_rows)
    if most < table.num_rows:
        chosen = np.sort(np.random.default_rng(0).permutation(table.num_rows)[:most])
        table = table.take(pa.array(chosen))
    column = table.column_names.index(of.label)
    if of.above is not None:
        late = pc.cast(pc.greater(table.column(column), of.above), pa.int64())
        table = table.set_column(column, of.label, late)
    if not of.numbers:
        counts = pc.value_counts(table.column(column))
        rare = [entry["values"] for entry in counts.to_pylist() if entry["counts"] < of.least_rows]
        if rare:
            table = table.filter(pc.invert(pc.is_in(table.column(column), pa.array(rare))))
    return table


def train_rows(of: TableSet, table: Any, seed: int) -> np.ndarray:
    """Mask of the training rows."""
    n = table.num_rows
    if not of.time:
        mask = np.ones(n, dtype=bool)
        mask[np.random.default_rng(seed).permutation(n)[: round(TEST_SHARE * n)]] = False
        return mask
    times = table.column(of.time).to_numpy()
    return np.asarray(times < np.quantile(times.astype(np.int64), 1 - TEST_SHARE).astype(np.int64).astype(times.dtype))


def write_sides(of: TableSet, options: Options, seed: int, folder: Path) -> None:
    """Training and test rows, as files that all read."""
    import pyarrow as pa
    import pyarrow.parquet

    table = read_table(of, options, 2000 if options.quick else None)
    mask = train_rows(of, table, seed)
    for name, wanted in ((TRAIN, mask), (TEST, ~mask)):
        pyarrow.parquet.write_table(table.filter(pa.array(wanted)), folder / name)
