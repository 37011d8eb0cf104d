"""Tables as files have them, for benchmarks that begin with words, dates and missing cells."""

from __future__ import annotations

import hashlib
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import Options
from pipeline.errors import InputError

TRAIN, TEST = "train.parquet", "test.parquet"
TEST_SHARE = 0.2
"""Share of the test rows where all rows are used."""
CAPPED_SHARE = 1 / 3
"""Share of the test rows where the training rows are capped; there are at most half as many test rows as those."""
LEAST_ROWS = 1000
"""Least number of rows of a table that a seed may draw."""


@dataclass(frozen=True)
class Source:
    """A public repository with tables.

    Attributes
    ----------
    name : str
        Of the folder into which it is cloned.
    repository : str
        Owner and name on GitHub.
    path : str
        Path of a table in it, with ``{name}`` for the name of the table.
    header : bool
        Whether the first line of a file has the names of its columns.
    task : str
        "classification" or "regression", of tables that do not say it.
    """

    name: str
    repository: str
    path: str
    header: bool
    task: str

    def find(self, table: str, folder: Path) -> Path | None:
        """Return the file of a table in a folder that has a clone, or copies of the folders of tables; else None."""
        inside = Path(self.path.format(name=table))
        places = (folder / self.name / inside, folder / self.name / Path(*inside.parts[1:]))
        return next((place for place in places if place.exists()), None)

    def how(self, folder: Path) -> str:
        """Return the command that brings the tables."""
        return f"git clone --depth 1 https://github.com/{self.repository} {folder / self.name}"


@dataclass(frozen=True)
class TableSet:
    """A table, and what is to be learned from it.

    Attributes
    ----------
    name : str
    file : str
        In the data directory; empty if the table comes from elsewhere.
    label : str
        Name of the column.
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
    dataset : str
        Name of a known data set of numbers, LIBSVM text, where there is no file of a table.
    source : Source, optional
        Public repository that has the table; its label is called ``label`` when it is read.
    column : str
        What the file of a public table calls the label; empty: the column called class, in any case, else the last one.
    """

    name: str
    file: str = ""
    label: str = "label"
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
    dataset: str = ""
    source: Source | None = None
    column: str = ""


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
"""Tables that are measured with all their rows."""
KNOWN = tuple(TableSet(name, label="label", dataset=name) for name in ("covtype-93k", "usps", "w8a"))
SHARED = (
    "adult", "california", "cpu_act", "electricity", "spambase", "ctg", "kddcup99", "flights", "delay", "flights-late",
    *(of.name for of in KNOWN),
)  # fmt: skip
"""Tables of the data directory of which a part of the rows is measured; a9a is adult, and sector is text."""


def _public(kind: str) -> dict[str, TableSet]:
    """Return the tables of a part of ``public_tables.toml``, by name."""
    declared = tomllib.loads(Path(__file__).with_name("public_tables.toml").read_text(encoding="utf-8"))
    sources = {name: Source(name, **about) for name, about in declared["sources"].items()}
    tables = {}
    for name, about in declared[kind].items():
        source = sources[about["source"]]
        if about["rows"] >= LEAST_ROWS:
            numbers = about.get("task", source.task) == "regression"
            column = about.get("label", "")
            tables[name] = TableSet(name, label="label", numbers=numbers, source=source, column=column)
    return tables


PUBLIC, RESERVED = _public("chosen"), _public("reserved")
SETS |= {of.name: of for of in KNOWN} | PUBLIC
DRAWN = "drawn:"


def draw(seed: int, tables: int = 10) -> tuple[str, ...]:
    """Return the names of reserved tables that a seed draws, in the order of their names.

    The names are ordered by the SHA-256 of seed and name, so no library can change what a seed draws.
    """
    order = sorted(RESERVED, key=lambda name: hashlib.sha256(f"{seed}/{name}".encode()).hexdigest())
    return tuple(sorted(order[:tables]))


def sets_of(words: tuple[str, ...]) -> list[TableSet]:
    """Return the tables that ``--datasets`` names.

    Parameters
    ----------
    words : tuple of str
        Names of tables, ``shared``, ``public``, or ``drawn:SEED`` for the reserved tables that a seed draws.

    Raises
    ------
    InputError
        There is no such table.
    """
    groups = {"shared": SHARED, "public": tuple(PUBLIC)}
    tables: dict[str, TableSet] = {}
    for word in words:
        seed = word.removeprefix(DRAWN)
        if word.startswith(DRAWN) and seed.isdecimal():
            tables |= {name: RESERVED[name] for name in draw(int(seed))}
            continue
        for name in groups.get(word, (word,)):
            if name not in SETS:
                expected = ", ".join((*SETS, *groups))
                raise InputError(f"--datasets: found {word!r}, expected some of {expected} or {DRAWN}SEED")
            tables[name] = SETS[name]
    return list(tables.values())


def is_missing(of: TableSet, options: Options) -> bool:
    """Return whether a public table is not in the folder of tables."""
    return of.source is not None and of.source.find(of.name, options.tables_dir) is None


def _read_file(of: TableSet, options: Options) -> Any:
    """Return the table as its file has it, with missing cells as nulls."""
    import pyarrow.csv
    import pyarrow.parquet

    if of.source is not None:
        found = of.source.find(of.name, options.tables_dir)
        if found is None:
            raise InputError(f"{of.name}: not in {options.tables_dir}; bring it: {of.source.how(options.tables_dir)}")
        path = found
    else:
        path = options.data_dir / of.file
        if not path.exists():
            raise InputError(f"{path}: found no such file, expected it in the data directory (--data-dir)")
    if path.suffix == ".parquet":
        return pyarrow.parquet.read_table(path)
    header = of.source is None or of.source.header
    table = pyarrow.csv.read_csv(
        path,
        read_options=pyarrow.csv.ReadOptions(autogenerate_column_names=not header),
        parse_options=pyarrow.csv.ParseOptions(delimiter="\t" if ".tsv" in path.name else ","),
        convert_options=pyarrow.csv.ConvertOptions(
            null_values=["", "?", "NA"], strings_can_be_null=True, quoted_strings_can_be_null=True
        ),
    )
    if of.source is None:
        return table
    names = table.column_names
    label = of.column or next((name for name in names if name.lower() == "class"), names[-1])
    if label not in names:
        raise InputError(f"{path}: found no column {label!r} among {', '.join(names)}")
    table = table.rename_columns([of.label if name == label else name for name in names])
    return table.drop_columns([name for name in table.column_names if name.lower() == "id"])


def _read_known(of: TableSet, options: Options) -> Any:
    """Return all rows of a known data set, training rows first, as a table of numbers."""
    import pyarrow as pa

    from benchmarks.data import load
    from ikmap.rows import as_dense

    data = load(of.dataset, options)
    X = np.concatenate([as_dense(data.X), as_dense(data.X_test)])
    columns = {f"x{k + 1}": np.ascontiguousarray(X[:, k]) for k in range(X.shape[1])}
    return pa.table({**columns, of.label: np.concatenate([data.y, data.y_test]).astype(np.int64)})


def read_table(of: TableSet, options: Options, most_rows: int | None = None) -> Any:
    """Return the table, as Arrow has it, with missing cells as nulls and the label as it is to be learned.

    Raises
    ------
    InputError
        There is no file of it.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    table = _read_known(of, options) if of.dataset else _read_file(of, options)
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
    """Return a mask of the training rows, where all rows are used."""
    n = table.num_rows
    if of.time:
        return _before(of, table)
    mask = np.ones(n, dtype=bool)
    mask[np.random.default_rng(seed).permutation(n)[: round(TEST_SHARE * n)]] = False
    return mask


def _before(of: TableSet, table: Any) -> np.ndarray:
    """Return a mask of the rows that come before the last fifth of the times."""
    times = table.column(of.time).to_numpy()
    return np.asarray(times < np.quantile(times.astype(np.int64), 1 - TEST_SHARE).astype(np.int64).astype(times.dtype))


def capped_rows(of: TableSet, table: Any, seed: int, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the numbers of at most so many training rows, and of at most half as many test rows.

    Of classes that have fewer than ``least_rows`` of these training rows there is no row on either side.
    """
    rng, n = np.random.default_rng(seed), table.num_rows
    if of.time:
        before = _before(of, table)
        train, test = (rng.permutation(np.flatnonzero(mask)) for mask in (before, ~before))
    else:
        order = rng.permutation(n)
        test, train = np.split(order, [min(round(CAPPED_SHARE * n), rows // 2)])
    train, test = np.sort(train[:rows]), np.sort(test[: rows // 2])
    if of.numbers:
        return train, test
    labels = table.column(of.label).to_numpy()
    classes, counts = np.unique(labels[train], return_counts=True)
    kept = classes[counts >= of.least_rows]
    return train[np.isin(labels[train], kept)], test[np.isin(labels[test], kept)]


def write_sides(of: TableSet, options: Options, seed: int, folder: Path, rows: int = 0) -> None:
    """Write training and test rows, as files that all sides read.

    Parameters
    ----------
    rows : int
        Training rows at most; 0: all.
    """
    import pyarrow as pa
    import pyarrow.parquet

    table = read_table(of, options, 2000 if options.quick else None)
    if rows:
        sides = capped_rows(of, table, seed, rows)
    else:
        mask = train_rows(of, table, seed)
        sides = np.flatnonzero(mask), np.flatnonzero(~mask)
    for name, chosen in zip((TRAIN, TEST), sides, strict=True):
        pyarrow.parquet.write_table(table.take(pa.array(chosen)), folder / name)
