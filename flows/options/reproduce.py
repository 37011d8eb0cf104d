"""The options of ``python -m flows.reproduce``."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from annotated_types import Ge, Gt, Le

from flows.options.common import CLUSTER, DATA, OUTPUT, RUN, STREAM, CommonOptions
from flows.options.kinds import Place
from flows.options.option import Environment, On, Option, Session, options_of
from ikmap.methods import Doc, FieldError, fields_of
from ikmap.methods.kinds import Choice
from pipeline.errors import InputError, UnknownOption, UnknownValue
from pipeline.reproduce.paper import KINDS, READINGS, Experiment, Paper
from pipeline.reproduce.registry import DEFAULT, FAULTS, PAPERS
from pipeline.resolve import flag

EXPERIMENTS = "Experiments"
NO_PAPER = f"there is no paper to reproduce: {'; '.join(FAULTS)}"


class ReproduceOptions(CommonOptions):
    """Options of ``python -m flows.reproduce``: tables and figures of a paper, ours beside what was printed.

    Raises
    ------
    InputError
        As :class:`~flows.options.batch.BatchOptions`.
    """

    SCOPES: ClassVar[Mapping[str, Mapping[str, Option]]] = {
        name: options_of(paper.Options, READINGS) for name, paper in PAPERS.items()
    }
    if TYPE_CHECKING:  # what methods declare becomes a field as the class is made

        def __init__(self, **values: Any) -> None: ...

    PROGRAM: ClassVar[str] = "flows.reproduce"
    DESCRIPTION: ClassVar[str] = (
        "Run tables and figures of a paper on the data sets that are there, and write a page with our numbers beside "
        "the printed ones. Runs that are finished are not done again: give the same --run-dir."
    )
    GROUPS: ClassVar[tuple[str, ...]] = (EXPERIMENTS, READINGS, DATA, STREAM, RUN, CLUSTER, OUTPUT)

    paper: Annotated[
        str,
        Choice(tuple(PAPERS)),
        Doc(f"what to reproduce: {'; '.join(f'{name}, the {one.short}' for name, one in PAPERS.items())}"),
        On(EXPERIMENTS, page=1),
    ] = DEFAULT
    table: Annotated[tuple[str, ...] | None, Doc("tables to run, by their numbers"), On(EXPERIMENTS, page=1)] = None
    figure: Annotated[tuple[str, ...] | None, Doc("figures to draw, by their numbers"), On(EXPERIMENTS, page=1)] = None
    section: Annotated[
        tuple[str, ...] | None, Doc("sections whose claim to measure, by their numbers"), On(EXPERIMENTS, page=1)
    ] = None
    datasets: Annotated[
        tuple[str, ...] | None,
        Doc("data sets to run on (default: those that the paper has there)"),
        On(EXPERIMENTS, page=1),
    ] = None
    systems: Annotated[
        tuple[str, ...] | None,
        Doc("systems to run, by their names on the page (default: all of a table)"),
        On(EXPERIMENTS, page=1),
    ] = None

    data_dir: Annotated[
        str | None,
        Place("DIR", here=True),
        Doc("where the data sets lie (default: $IKMAP_DATA_DIR, else the user cache); nothing is downloaded"),
        On(DATA, page=1),
    ] = None
    dataset_file: Annotated[
        str | None, Place("FILE", here=True), Doc("TOML file that declares more data sets for --datasets"), On(DATA)
    ] = None
    order: Annotated[
        Literal["shuffled", "file"], Doc("order of the streams; file: for data in time order"), On(STREAM)
    ] = "shuffled"
    initial: Annotated[
        int | None, Ge(2), Doc("rows of the streams' initial sets (default: as many as training rows)"), On(STREAM)
    ] = None

    seed: Annotated[int, Ge(0), Le(2**63 - 1), Doc("seed of every random choice"), On(RUN, page=1)] = 0
    limit_seconds: Annotated[float, Gt(0), Doc("stop a run that has taken so long, and mark it"), On(RUN, page=1)] = (
        43_200.0
    )
    run_dir: Annotated[
        str | None,
        Place("DIR", here=True),
        Doc("directory of all runs and of the page (default: runs/ and the name of the paper)"),
        On(RUN, page=1),
        Session(),
        Environment("IKMAP_RUN_DIR"),
    ] = None
    fresh: Annotated[bool, Doc("do all runs again"), On(RUN, page=1), Session()] = False

    @classmethod
    def parse(cls, argv: Sequence[str] | None = None) -> Self:
        """Return the options of a command line. An error for an unknown option names packages with papers that fail.

        Raises
        ------
        InputError
            Also if there is no paper at all, whatever the options are.
        """
        if not PAPERS:
            raise InputError(NO_PAPER)
        try:
            return super().parse(argv)
        except (UnknownOption, UnknownValue) as error:
            # A name may be unknown because a package is at fault or left out.
            of_paper = isinstance(error, UnknownOption) or error.option == "paper"
            raise InputError("; ".join((str(error), *(FAULTS if of_paper else ())))) from None

    def check_together(self) -> None:
        """Refuse a command that asks for nothing, or for what the paper does not have."""
        super().check_together()
        if self.paper not in PAPERS:  # there is no default without the papers that come with the product
            known = f"expected one of {', '.join(PAPERS)}" if PAPERS else NO_PAPER
            raise UnknownValue(f"--paper: found none, {known}", "paper")
        if not (self.table or self.figure or self.section):
            raise InputError("--table, --figure, --section: found none of them, expected what to reproduce")
        if self.systems and not self.table:
            raise InputError("--systems: found without --table, expected both")
        self._refuse_options_of_others()
        _ = self.experiments, self.readings

    @property
    def the_paper(self) -> Paper:
        """The paper that is reproduced."""
        return PAPERS[self.paper]

    @property
    def directory(self) -> Path:
        """Directory of all runs and of the page."""
        return Path(os.path.expanduser(self.run_dir or self.the_paper.run_dir))

    @property
    def experiments(self) -> list[Experiment]:
        """Tables, figures and sections to reproduce.

        Raises
        ------
        InputError
            The paper has none of that name.
        """
        return [self.the_paper.find(kind, name) for kind in KINDS for name in getattr(self, kind) or ()]

    @property
    def readings(self) -> Mapping[str, Any]:
        """The options of the paper: of each reading a value or "all".

        Raises
        ------
        InputError
            A value is not for this paper, or contradicts another.
        """
        kind = self.the_paper.Options
        given = {name: getattr(self, name) for name in fields_of(kind).keys() - self.at_default}
        try:
            return kind.of_record({**given, **self.scoped.get(self.paper, {})})[0].record()
        except FieldError as error:
            raise InputError(f"{error.worded(flag)} (--paper {self.paper})") from None

    @property
    def unused(self) -> frozenset[str]:
        """Options of other papers."""
        return super().unused | (frozenset(self.METHOD_OPTIONS) - fields_of(self.the_paper.Options).keys())

    def _refuse_options_of_others(self) -> None:
        specs = self.specs()
        given = [(specs[name].flag, name) for name in self.unused - self.at_default]
        given += [(f"--{of}.{name}", name) for of, table in self.scoped.items() if of != self.paper for name in table]
        for option_flag, name in sorted(given):
            owners = [one.name for one in PAPERS.values() if name in fields_of(one.Options) and one.name != self.paper]
            scope = option_flag[2:].partition(".")
            owner = scope[0] if scope[1] else " or ".join(owners)
            raise InputError(
                f"{option_flag}: --paper {self.paper} does not use it; give --paper {owner}, or leave {option_flag} out"
            )
