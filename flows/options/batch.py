"""The options of ``python -m flows.batch``."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from annotated_types import Ge, Gt, Le, Lt

from flows.options.common import CLUSTER, DATA, OUTPUT, RUN, CommonOptions
from flows.options.kinds import Duration, OneOrMore, Place
from flows.options.option import FEATURES, LEARNING, Environment, On, Option, Session, options_of_methods
from flows.options.presets import PRESETS
from flows.options.table import TableOptions
from ikmap.methods import LEARNERS, MAPS, Doc, StreamLearner, methods
from ikmap.methods.composed import names_of
from ikmap.methods.kinds import Choice, Name, Names, Text
from ikmap.methods.registry import FAULTS, faults
from ikmap.tasks import AUTO, criteria, task_named, task_words
from ikmap.tasks.classification.threshold import Threshold
from pipeline.errors import InputError, UnknownOption, UnknownValue
from pipeline.resolve import Program, chosen, map_for, searches_anything, shared_out
from pipeline.rows.split_rule import SplitRule
from pipeline.sources.formats import format_names

FORMAT = Choice((AUTO, *format_names()))
"""Formats of files, by the words of ``--format``."""

OF_PARTITIONER = (
    f"cells: {', '.join(f'{name} by {kind.about.title}' for name, kind in MAPS.items())}; auto: mostly iforest; "
    "several: iforest,anne"
)
OF_LEARNER = f"any of {', '.join(LEARNERS)}; auto: the best by measure; with a map, the task's usual one"


class BatchOptions(TableOptions, CommonOptions):
    """Options of ``python -m flows.batch``: data to trained and evaluated model.

    Raises
    ------
    InputError
        For a value out of its range, a choice that is not available, or options that exclude each other;
        the message is one line that names the option, what was found and what was expected.
    """

    SCOPES: ClassVar[Mapping[str, Mapping[str, Option]]] = options_of_methods(methods())
    PRESETS: ClassVar[Mapping[str, Mapping[str, Any]]] = PRESETS
    if TYPE_CHECKING:  # what methods declare becomes a field as the class is made

        def __init__(self, **values: Any) -> None: ...

    PROGRAM: ClassVar[str] = "flows.batch"
    DESCRIPTION: ClassVar[str] = (
        "Learn classes, numbers or what is unusual from a data set, test it on other rows, write a report. "
        "Without --dataset or --input, a small real data set that ships with a dependency is used."
    )

    dataset: Annotated[str | None, Place("NAME"), Doc("a known data set, such as a9a"), On(DATA, page=1)] = None
    dataset_file: Annotated[
        str | None, Place("FILE", here=True), Doc("TOML file that declares more data sets for --dataset"), On(DATA)
    ] = None
    input: Annotated[
        str | None,
        Place("PATH|URL"),
        Doc(
            "training data: a file, or a URL that fsspec can open; of tables also a folder, a glob in quotes, or "
            "files with commas between"
        ),
        On(DATA, page=1),
    ] = None
    test_input: Annotated[
        str | None, Place("PATH|URL"), Doc("test data for --input (default: split --input)"), On(DATA, page=1)
    ] = None
    test_size: Annotated[
        float, Gt(0), Lt(1), Doc("share of the rows held out, where there is no test set"), On(DATA, page=1)
    ] = 0.2
    split_by: Annotated[
        str | None,
        Text("RULE"),
        Doc(
            "how rows are divided into training and test rows, and into the folds of cross-validation: time:COLUMN "
            "(test rows come last), group:COLUMN (rows of a group stay together) or stratified (both have the classes' "
            "shares); the column stays a feature unless --drop names it too (default: at random)"
        ),
        On(DATA),
    ] = None
    format: Annotated[str, FORMAT, Doc("format of the files; auto goes by the name"), On(DATA)] = AUTO
    label: Annotated[
        str | None,
        Name("COLUMN"),
        Doc(
            "column that holds the label, in tables: a name, or a position from 0, or -1 (default: label, target, "
            "class or y; without names the last, for novelty none)"
        ),
        On(DATA, page=1),
    ] = None
    above: Annotated[
        float | None, Doc("make two classes of labels that are numbers: 1 above this one, else 0"), On(DATA, page=1)
    ] = None
    columns: Annotated[
        int | None, Ge(1), Doc("number of columns of libsvm data (default: the largest index)"), On(DATA)
    ] = None
    scale: Annotated[
        Literal["none", "minmax"],
        Doc("minmax maps each column to [0, 1] by the training rows, clipping the test rows"),
        On(DATA),
    ] = "none"
    task: Annotated[
        str,
        Choice((AUTO, *task_words())),
        Doc("what to learn; auto: as the data set is defined, else by the labels"),
        On(DATA),
    ] = "auto"
    inliers: Annotated[
        tuple[str, ...] | None,
        Doc(
            "labels of normal rows, for novelty: only rows with these are learned from, others evaluate (default: all "
            "rows are learned from)"
        ),
        On(DATA),
    ] = None
    data_dir: Annotated[
        str | None,
        Place("DIR", here=True),
        Doc("where data sets lie or are downloaded to (default: $IKMAP_DATA_DIR, else the user cache)"),
        On(DATA),
    ] = None

    partitioner: Annotated[
        str, OneOrMore(Choice((AUTO, *MAPS)), alone=(AUTO,)), Doc(OF_PARTITIONER), On(FEATURES, page=1)
    ] = AUTO
    cv_rows: Annotated[
        int,
        Ge(10),
        Doc(
            "most training rows that --psi auto, --lifetime auto and --C auto look at, and that models race on (there "
            "20000 means up to 100,000 of very many); a sweep over lifetimes takes millions, as it goes through them "
            "block by block"
        ),
        On(FEATURES),
    ] = 20_000
    search: Annotated[
        Literal["race", "full"],
        Doc(
            "how --psi auto and --C auto search: race leaves out, after one and after three of the five folds, what "
            "has less than a chance of 1 in 100 to be chosen in the end, and uses at most 300 partitionings; full "
            "tries everything on all folds with all of them"
        ),
        On(FEATURES),
    ] = "race"
    select_by: Annotated[
        str,
        Choice(("auto", *criteria())),
        Doc("what --psi auto and --C auto go by; auto: log loss of classes, squared error (R2) of numbers"),
        On(FEATURES),
    ] = "auto"
    budget: Annotated[
        float | None,
        Duration(),
        Doc(
            "time to choose and make a model, as in 10m (default: about a minute for 100,000 rows; of --psi auto and "
            "--C auto alone: no limit)"
        ),
        On(FEATURES, page=1),
    ] = None

    learner: Annotated[
        tuple[str, ...], Names(Choice((AUTO, *LEARNERS)), alone=(AUTO,)), Doc(OF_LEARNER), On(LEARNING, page=1)
    ] = (AUTO,)
    order: Annotated[
        str, Choice(("shuffled", "file")), Doc("order of the online learners' pass over the rows"), On(LEARNING)
    ] = "shuffled"
    calibration: Annotated[
        Literal["none", "platt", "isotonic"],
        Doc(
            "turn decision values into probabilities, by a curve fitted to training rows that were not learned from; "
            "those of logistic are probabilities anyway"
        ),
        On(LEARNING),
    ] = "none"
    threshold_for: Annotated[
        str | None,
        Text("GOAL"),
        Doc(
            "with two classes, from which decision value on the second one is predicted: chosen on training rows that "
            "were not learned from, for cost:MISSED:FALSE (cost:5:1: a missed row of the second class costs five times "
            "a false one), precision:P, recall:R, f1 or balanced (default: 0)"
        ),
        On(LEARNING),
    ] = None

    importance: Annotated[
        bool,
        Doc(
            "find out by how much each column matters, by shuffling its values among 10,000 test rows, and how the "
            "most important ones do; for the report"
        ),
        On(LEARNING),
    ] = False

    seed: Annotated[int, Ge(0), Le(2**63 - 1), Doc("seed of every random choice"), On(RUN, page=1)] = 0
    run_dir: Annotated[
        str | None,
        Place("DIR", here=True),
        Doc("an unfinished run in it is resumed (default: runs/<dataset>-<time>)"),
        On(RUN, page=1),
        Session(),
        Environment("IKMAP_RUN_DIR"),
    ] = None
    fresh: Annotated[bool, Doc("start over, discarding the run in --run-dir"), On(RUN, page=1), Session()] = False
    shard_rows: Annotated[
        int | None,
        Ge(1),
        Doc("rows per task and stored object (advanced; default: sized to the workers' memory)"),
        On(RUN),
    ] = None
    device: Annotated[
        Literal["auto", "cpu", "gpu"],
        Doc(
            "what maps rows to cells: GPUs or processors; auto takes a GPU where a worker was given one "
            "(CUDA_VISIBLE_DEVICES)"
        ),
        On(CLUSTER),
    ] = "auto"
    explain: Annotated[
        bool, Doc("print the plan: how cells are found, tasks, memory, output size"), On(OUTPUT, page=1), Session()
    ] = False
    dry_run: Annotated[
        bool,
        Doc("read the data, print the plan as --explain does, and stop; the same command without it goes on"),
        On(OUTPUT),
        Session(),
    ] = False
    no_dask_report: Annotated[
        bool, Doc("leave out dask-report.html, which Dask takes about half a second to draw"), On(OUTPUT), Session()
    ] = False

    def check_together(self) -> None:
        """Refuse options that exclude each other."""
        super().check_together()
        if self.input is None:
            if self.test_input is not None:
                raise InputError("--test-input: found without --input, expected both")
        elif self.dataset is not None:
            raise InputError("--dataset and --input: found both, expected one of them")
        elif self.dataset_file is not None:
            raise InputError("--dataset-file: found with --input, expected --dataset")
        if self.test_input is not None and self.test_size != self.specs()["test_size"].default:
            raise InputError("--test-input and --test-size: found both, expected one of them")
        if self.dry_run and self.quiet:
            raise InputError("--dry-run and --quiet: found both, expected one of them: a dry run only prints its plan")
        if self.explain and self.quiet:
            raise InputError("--explain and --quiet: found both, expected one of them: --quiet prints no plan")
        self._resolve()

    @classmethod
    def parse(cls, argv: Sequence[str] | None = None) -> Self:
        try:
            return super().parse(argv)
        # A name may be unknown because the package that has it could not be imported, or is not installed.
        except UnknownValue as error:
            reasons = faults() if error.option in ("learner", "partitioner", "kernel") else []
            raise InputError("; ".join((str(error), *reasons))) from None
        except UnknownOption as error:
            text = str(error).partition("; did you mean")[0] if FAULTS else str(error)
            raise InputError("; ".join((text, *FAULTS))) from None

    @property
    def unused(self) -> frozenset[str]:
        used = {key for name in self.by_method for part in names_of(name) for key in self.SCOPES[part]}
        return super().unused | (frozenset(self.METHOD_OPTIONS) - used)

    @property
    def map(self) -> str:
        """Name of the partitioner; "auto" as long as the learner is not known."""
        if self.partitioner != AUTO or self.learner == (AUTO,):
            return self.partitioner
        return map_for(self.learner)

    @cached_property
    def by_method(self) -> dict[str, dict[str, Any]]:
        """Options of each chosen method, by its name."""
        program = Program(self.PROGRAM, frozenset(self._learners()), "flows.batch", " ".join(self.learner))
        return shared_out(self._names, self._plain, self.scoped, program)

    @cached_property
    def _names(self) -> Sequence[str]:
        """Names of the chosen methods."""
        return chosen(self.map, self.learner, self._plain, self.scoped, self.task)

    @property
    def _plain(self) -> dict[str, Any]:
        """Options of methods that are given for all that have them."""
        return {name: getattr(self, name) for name in self.METHOD_OPTIONS if name not in self.at_default}

    def _resolve(self) -> None:
        """Refuse an option that changes nothing."""
        specs, found, at_default = self.specs(), f"found --learner {' '.join(self.learner)}", self.at_default
        names = self._names
        if "partitioner" not in at_default and self.map not in names:
            on_cells = [name for name, kind in LEARNERS.items() if kind.about.on == "cells"]
            raise InputError(
                f"--partitioner {self.partitioner}: {found}, which works without cells, expected one of "
                f"{', '.join(on_cells)}"
            )
        raced = self.learner == (AUTO,) and self.partitioner == AUTO and not any(self.by_method.values())
        searched = searches_anything(names, self.by_method)
        online = [name for name, kind in LEARNERS.items() if issubclass(kind, StreamLearner)]
        if "order" not in at_default and not set(online) & set(self.learner):
            raise InputError(f"--order {self.order}: {found}, expected one of {', '.join(online)}")
        parses: dict[str, Callable[[str], object]] = {"threshold_for": Threshold.parse, "split_by": SplitRule.parse}
        for name, parse in parses.items():
            if (word := getattr(self, name)) is not None:
                try:
                    parse(word)
                except ValueError as error:
                    raise InputError(f"{specs[name].flag}: {error}") from None
        # A race of models, which there is for tasks with labels, takes the first two; the others are of a search alone.
        of_races, of_searches = ("cv_rows", "budget"), ("search", "select_by")
        for name in (*of_races, *of_searches):
            if name in at_default:
                continue
            words = shlex.join(specs[name].words(getattr(self, name)))
            if raced and name in of_searches and task_named(self.task).labels.needed:
                raise InputError(
                    f"{words}: found no --learner, so that the run chooses the model, by log loss or squared error; "
                    "expected --learner, such as --learner svm, whose psi and C are to be chosen"
                )
            if not searched and not (raced and name in of_races):
                raise InputError(
                    f"{words}: found nothing to choose, expected an option such as --psi or --C to be auto"
                )

    @classmethod
    def _learners(cls) -> tuple[str, ...]:
        """Names of those that the command has."""
        kind = cls.specs()["learner"].kind
        assert isinstance(kind, Names)
        assert kind.choice is not None
        return tuple(name for name in kind.choice.known if name != AUTO)
