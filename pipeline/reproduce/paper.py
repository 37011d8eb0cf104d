"""The paper as data: its systems, tables and figures, what it leaves open, and the runs that each of them takes."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Any, Literal

Kind = Literal["table", "figure", "section"]


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
    within : float
        Difference from a printed accuracy that counts as the same.
    """

    name: str
    title: str
    options: Mapping[str, Any]
    negative: Mapping[str, Any] | None = None
    why: str = ""
    within: float = 0.02


@dataclass(frozen=True)
class Reading:
    """Something that the paper leaves open.

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
    values: Mapping[str, Mapping[str, Any]]


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
    about: Mapping[str, Any] = field(default_factory=dict)

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
        `system` names a column of a table or a part of a figure.
    command : {"batch", "online"}
    options : mapping
        Of that command, beside the data set and the seed.
    reading : tuple of str, optional
        Name and value of the reading in which it differs from the run that is held against the printed numbers.
    """

    key: str
    dataset: str
    system: str
    command: Literal["batch", "online"]
    options: Mapping[str, Any]
    reading: tuple[str, str] | None = None


@dataclass(frozen=True)
class Paper:
    """Systems, readings, experiments and printed numbers."""

    systems: Mapping[str, System]
    readings: Mapping[str, Reading]
    experiments: Mapping[tuple[str, str], Experiment]
    published: Mapping[str, Any]

    @property
    def datasets(self) -> tuple[str, ...]:
        """Data sets of Table 4, in its order."""
        return tuple(self.published["table4"])

    def find(self, kind: Kind, name: str) -> Experiment:
        return self.experiments[kind, name]

    def datasets_of(self, experiment: Experiment) -> tuple[str, ...]:
        """Data sets that the paper has in an experiment."""
        return tuple(experiment.about.get("datasets", self.datasets))


@cache
def load_paper() -> Paper:
    """Read what ships with the package."""
    here = resources.files("pipeline.reproduce")
    about = tomllib.loads((here / "experiments.toml").read_text(encoding="utf-8"))
    experiments: list[Experiment] = []
    kinds: tuple[Kind, ...] = ("table", "figure", "section")
    for kind in kinds:
        for name, told in about[kind].items():
            experiments.append(Experiment(kind, name, told["title"], told))
    return Paper(
        systems={name: System(name, **told) for name, told in about["system"].items()},
        readings={
            name: Reading(name, told["title"], told["why"], tuple(told["systems"]), told["values"])
            for name, told in about["reading"].items()
        },
        experiments={(experiment.kind, experiment.name): experiment for experiment in experiments},
        published=tomllib.loads((here / "published.toml").read_text(encoding="utf-8")),
    )


def entries_of(
    paper: Paper,
    experiment: Experiment,
    datasets: Iterable[str],
    chosen: Mapping[str, str],
    stream: Mapping[str, Any],
    systems: Sequence[str] | None = None,
) -> Iterator[Entry]:
    """Yield the runs of an experiment, those that the printed numbers are compared with first.

    Parameters
    ----------
    datasets : iterable of str
    chosen : mapping
        By name of a reading: the one value to take, or "all".
    stream : mapping
        Options of ``flows.online`` for what runs on a stream.
    systems : sequence of str, optional
        Only these.
    """
    for dataset in datasets:
        if experiment.kind == "table":
            wanted = [name for name in experiment.systems if systems is None or name in systems]
            for name in wanted:
                yield _main(paper, dataset, paper.systems[name], chosen)
            for name in wanted:
                yield from _otherwise(paper, dataset, paper.systems[name], chosen)
        elif experiment.label == "figure 5":
            yield from _growing(dataset, experiment)
        elif "streams" in experiment.about:
            yield from _streams(dataset, experiment, stream)


def shown(reading: Reading, chosen: Mapping[str, str]) -> str:
    """The value of a reading that the printed numbers are compared with."""
    asked = chosen.get(reading.name, "all")
    return next(iter(reading.values)) if asked == "all" else asked


def _main(paper: Paper, dataset: str, system: System, chosen: Mapping[str, str]) -> Entry:
    """The run whose result is held against the printed one."""
    options, parts = dict(system.options), [system.name]
    factors: dict[str, float] = {}
    for reading in paper.readings.values():
        value = shown(reading, chosen)
        if system.name in reading.systems and reading.values[value]:
            options |= {name: given for name, given in reading.values[value].items() if name != "times"}
            factors |= reading.values[value].get("times", {})
            parts.append(f"{reading.name}-{value}")
    for name, factor in factors.items():  # whatever another reading has made of the option
        options[name] *= factor
    return Entry(f"{dataset}/{'-'.join(parts)}", dataset, system.name, "batch", options)


def _otherwise(paper: Paper, dataset: str, system: System, chosen: Mapping[str, str]) -> Iterator[Entry]:
    """Yield the runs that read the paper otherwise in one point."""
    for reading in paper.readings.values():
        if system.name not in reading.systems or chosen.get(reading.name, "all") != "all":
            continue
        for value in list(reading.values)[1:]:
            main = _main(paper, dataset, system, {**chosen, reading.name: value})
            yield Entry(main.key, dataset, system.name, "batch", main.options, (reading.name, value))


def _growing(dataset: str, experiment: Experiment) -> Iterator[Entry]:
    """Figure 5: one run for each t and each b."""
    psi = experiment.about["psi"]
    for size in experiment.about["sizes"]:
        options = {"learner": ["ogd"], "partitioner": "iforest", "psi": psi, "t": size}
        yield Entry(f"{dataset}/figure5-t-{size}", dataset, f"t={size}", "batch", options)
    for size in experiment.about["sizes"]:
        options = {"learner": ["nogd"], "psi": psi, "b": size}
        yield Entry(f"{dataset}/figure5-b-{size}", dataset, f"b={size}", "batch", options)


def _streams(dataset: str, experiment: Experiment, stream: Mapping[str, Any]) -> Iterator[Entry]:
    """Runs on a stream: one, or one for each psi."""
    label = experiment.label.replace(" ", "")
    changed = "".join(f"-{name}-{value}" for name, value in stream.items())
    for asked in experiment.about["streams"]:
        name = f"{label}-{asked['partitioner']}{changed}"
        if "psi" not in experiment.about:
            yield Entry(f"{dataset}/{name}", dataset, asked["partitioner"], "online", {**asked, **stream})
        for psi in experiment.about.get("psi", ()):
            options = {**asked, **stream, "psi": psi}
            yield Entry(f"{dataset}/{name}-psi-{psi}", dataset, f"psi={psi}", "online", options)
