"""A paper that describes itself, with its systems, readings, experiments and printed numbers, and the forms of these.

A paper names the form of each experiment, and a form has its paper: they stand together.

Commands load the declarations of all papers to answer ``--help``: only the standard library is imported here, and a
paper's TOML files are read when somebody asks for what stands in them.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, Literal

from ikmap.arrays import Array
from ikmap.methods.fields import Configured
from pipeline.errors import InputError
from pipeline.record_types import Record, RecordView

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ikmap.rows import Rows

Kind = Literal["table", "figure", "section"]
type Row = Record
Status = Literal["finished", "stopped", "memory", "failed", "defect"]
KINDS: tuple[Kind, ...] = ("table", "figure", "section")
READINGS = "Readings"
"""Group of the options that say how to read a paper."""


WITHIN = 0.02
"""Difference from a printed number, of two digits, that counts as the same: for every system alike."""


@dataclass(frozen=True)
class System:
    """A column of the tables.

    Attributes
    ----------
    name, title : str
    options : mapping
        Of ``flows.batch``.
    negative : mapping or None
        In their place where the data has negative values, and `why`.
    """

    name: str
    title: str
    options: RecordView
    negative: RecordView | None = None
    why: str = ""


@dataclass(frozen=True)
class Reading:
    """A point that the paper leaves open, and the ways to read it.

    Attributes
    ----------
    name, title, why : str
    systems : tuple of str
        Those that it concerns.
    values : mapping of str to mapping
        The ways to read it, as options; the first is ours. What stands under "times" multiplies options.
    """

    name: str
    title: str
    why: str
    systems: tuple[str, ...]
    values: Mapping[str, RecordView]


@dataclass(frozen=True)
class Experiment:
    """A table, a figure or a section with a claim.

    Attributes
    ----------
    kind, name : str
        "table" and "5".
    title : str
    about : mapping
        What else ``experiments.toml`` says of it.
    """

    kind: Kind
    name: str
    title: str
    about: RecordView = field(default_factory=dict)

    @property
    def label(self) -> str:
        return f"{self.kind} {self.name}"

    @property
    def systems(self) -> tuple[str, ...]:
        return tuple(self.about.get("systems", ()))


@dataclass(frozen=True)
class Entry:
    """One run: a system on a data set, the paper read in one way.

    Attributes
    ----------
    key : str
        Unique; the name of its directory.
    dataset, system : str
        The data set is empty for a study of points that are generated.
        `system` names a column of a table or a part of a figure.
    command : {"batch", "online", "study"}
        "study": what only the paper knows to compute (:meth:`Paper.study`).
    options : mapping
        Of that command, beside the data set and the seed.
    reading : tuple of str, optional
        Name and value of the reading in which it differs from the run that is held against the printed numbers.
    """

    key: str
    dataset: str
    system: str
    command: Literal["batch", "online", "study"]
    options: RecordView
    reading: tuple[str, str] | None = None


@dataclass(frozen=True)
class Measure:
    """The measure that the printed numbers of a paper are about.

    Attributes
    ----------
    key : str
        Its name in ``metrics.json``, and in rows of ``results.json``.
    many : str
        More than one of it.
    what : str
        What it is, for people.
    form, printed : str
        How ours and the printed numbers are written.
    """

    key: str = "accuracy"
    many: str = "accuracies"
    what: str = "accuracy on the test set"
    form: str = ".4f"
    printed: str = ".2f"


@dataclass(frozen=True)
class Request:
    """A request for the runs of an experiment.

    Attributes
    ----------
    datasets : sequence of str
        Those that are there.
    readings : mapping
        Values of the paper's options by name; where the option is a reading, the one to take or "all".
    stream : mapping
        Options of ``flows.online`` for what runs on a stream.
    systems : sequence of str, optional
        Only these.
    """

    datasets: Sequence[str]
    readings: RecordView = field(default_factory=dict)
    stream: RecordView = field(default_factory=dict)
    systems: Sequence[str] | None = None


@dataclass(frozen=True)
class Outcome:
    """The end of a run.

    Attributes
    ----------
    status : {"finished", "stopped", "memory", "failed", "defect"}
        "stopped": at the time limit; "memory": it would need more than there is; "failed": the data or the machine is
        at fault; "defect": we are.
    command : str
        That does it again.
    metrics : mapping or None
        The contents of its ``metrics.json``.
    report : str or None
        Its report, seen from the page.
    message : str
        Why it did not finish; else what had to be done otherwise than asked.
    """

    status: Status
    command: str
    metrics: RecordView | None = None
    report: str | None = None
    message: str = ""

    def told(self) -> Row:
        """Return the fields that a row has of the outcome."""
        return {"status": self.status, "message": self.message, "report": self.report, "command": self.command}


@dataclass(frozen=True)
class Made:
    """The runs of an experiment after they have ended.

    Attributes
    ----------
    entries : sequence of Entry
        Its runs.
    outcome : callable
        How a run ended.
    readings : mapping
        The same as those of :class:`Request`.
    sizes : mapping
        What the ingest of each data set has found, or why it failed; for forms that are `sized`.
    """

    entries: Sequence[Entry]
    outcome: Callable[[Entry], Outcome]
    readings: RecordView
    sizes: RecordView


class Form:
    """Base of all forms: no runs, no rows, nothing to see.

    Attributes
    ----------
    paper : Paper
    experiment : Experiment
    """

    sized: ClassVar[bool] = False
    """True if data sets are read even if no run wants them, to say how large they are."""

    def __init__(self, paper: Paper, experiment: Experiment) -> None:
        self.paper, self.experiment = paper, experiment

    def entries(self, request: Request) -> Iterator[Entry]:  # noqa: ARG002
        """Yield the runs, those that the printed numbers are compared with first."""
        yield from ()

    def rows(self, made: Made) -> list[Row]:  # noqa: ARG002
        """Return the rows for ``results.json``: plain JSON, all that page, terminal and pictures need."""
        return []

    def html(self, rows: Sequence[Row]) -> str:  # noqa: ARG002
        """Return the part of the page below the pictures, made by `table` or a template; there is at least one row."""
        return ""

    def printed_out(self, rows: Sequence[Row]) -> tuple[Sequence[str], list[Sequence[str]]] | None:  # noqa: ARG002
        """Head and cells of a table for the terminal, or None for none."""
        return None

    def figures(self, rows: Sequence[Row]) -> Iterator[tuple[str, Figure]]:  # noqa: ARG002
        """Yield the pictures, each with the name of its files."""
        yield from ()

    @property
    def published(self) -> object:
        """Printed numbers that ``results.json`` has once for all rows."""
        return None


class Paper:
    """A paper to reproduce: a subclass in a folder of its own, with ``experiments.toml`` and ``published.toml``.

    Attributes
    ----------
    name : str
        What ``--paper`` calls it.
    short : str
        What people call it, as in "Isolation Kernel paper".
    title, source : str
        Its title; who wrote it, where and when it appeared.
    package : str
        The package whose folder has the TOML files: ``__name__`` of the module that declares the paper.
    Options : type
        Its options: readings, and whatever else only this paper needs.
    measure : Measure
        What its printed numbers are about.
    learners : tuple of str
        Names of learners of the task that rows are read for; default: the usual learner of classification.
    """

    name: ClassVar[str]
    short: ClassVar[str]
    title: ClassVar[str]
    source: ClassVar[str]
    package: ClassVar[str]
    Options: ClassVar[type[Configured]] = Configured
    measure: ClassVar[Measure] = Measure()
    learners: ClassVar[tuple[str, ...]] = ()

    def form(self, experiment: Experiment) -> type[Form] | None:  # noqa: ARG002
        """Return the class of the form that makes and shows an experiment.

        None, which is the default, stands for the one that holds ours against what was printed; it takes a table of
        systems (:func:`pipeline.reproduce.compared.form_of`).
        """
        return None

    def study(
        self, rows: Rows, target: Array, columns: Sequence[str] | None, options: RecordView, seed: int, part: int
    ) -> Record:
        """Compute one part of a study on all rows of a data set (:mod:`pipeline.runs.study`).

        Parameters
        ----------
        rows : ndarray or csr_array, shape (n, d)
            Of a study without a data set: none.
        target : ndarray, shape (n,)
            Class numbers; of a regression, numbers.
        columns : sequence of str or None
            Names of the columns.
        options : mapping
            Of the entry; ``parts`` is the number of parts.
        seed : int
        part : int
            Number of the part, from 0.

        Returns
        -------
        dict
            JSON values, among them one by the name of the :attr:`measure`; their mean over the parts is what is shown.
        """
        raise NotImplementedError

    @property
    def run_dir(self) -> str:
        """Directory of its runs unless ``--run-dir`` names another."""
        return f"runs/{self.name}"

    @property
    def datasets(self) -> tuple[str, ...]:
        """Data sets of experiments that do not name their own."""
        return tuple(self.about.get("datasets", ()))

    def datasets_of(self, experiment: Experiment) -> tuple[str, ...]:
        """Data sets that the paper has in an experiment."""
        return tuple(experiment.about.get("datasets", self.datasets))

    @cached_property
    def systems(self) -> dict[str, System]:
        return {name: System(name, **fields) for name, fields in self.about.get("system", {}).items()}

    @cached_property
    def readings(self) -> dict[str, Reading]:
        return {
            name: Reading(name, fields["title"], fields["why"], tuple(fields["systems"]), fields["values"])
            for name, fields in self.about.get("reading", {}).items()
        }

    @cached_property
    def experiments(self) -> dict[tuple[str, str], Experiment]:
        return {
            (kind, name): Experiment(kind, name, fields["title"], fields)
            for kind in KINDS
            for name, fields in self.about.get(kind, {}).items()
        }

    @cached_property
    def published(self) -> Record:
        """Printed numbers, by "table5" and the like; a paper need not have any."""
        return self._toml("published.toml", missing={})

    def find(self, kind: Kind, name: str) -> Experiment:
        """The experiment of that name.

        Raises
        ------
        InputError
            The paper has none.
        """
        experiment = self.experiments.get((kind, name))
        if experiment is None:
            there = ", ".join(other for other_kind, other in self.experiments if other_kind == kind)
            expected = f"some of {there}" if there else "none"
            raise InputError(f"--{kind}: found {name!r}, expected {expected} (--paper {self.name})")
        return experiment

    @cached_property
    def about(self) -> Record:
        """The contents of ``experiments.toml``."""
        return self._toml("experiments.toml")

    def _toml(self, name: str, missing: Record | None = None) -> Record:
        from importlib import resources

        file = resources.files(self.package) / name
        if missing is not None and not file.is_file():
            return missing
        return tomllib.loads(file.read_text(encoding="utf-8"))


def shown(reading: Reading, chosen: RecordView) -> str:
    """The value of a reading that the printed numbers are compared with."""
    reading_value = chosen.get(reading.name, "all")
    return next(iter(reading.values)) if reading_value == "all" else str(reading_value)
