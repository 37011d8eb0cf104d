"""The options of ``python -m flows.batch``."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

from flows.options.common import CLUSTER, DATA, OUTPUT, RUN, CommonOptions
from flows.options.declared import FEATURES, LEARNING, option
from flows.options.kinds import Place
from flows.options.methods import specs_of_methods, with_options_of
from flows.options.table import TableOptions
from ikmap.methods import LEARNERS, MAPS, StreamLearner, methods
from ikmap.methods.composed import names_of
from ikmap.methods.kinds import Choice, Flag, Integer, Names, OneOrMore, Real, Several, Text
from ikmap.methods.registry import FAULTS
from ikmap.tasks import AUTO, TASKS, criteria, task_words
from ikmap.tasks.classification.threshold import Threshold
from pipeline.errors import InputError
from pipeline.resolve import Program, chosen, map_for, searches_anything, shared_out
from pipeline.rows.split_rule import SplitRule

FORMATS = Choice(("auto", "libsvm", "csv", "parquet", "npy", "arrow", "idx"))
NAMES = tuple(LEARNERS)
LEARNER = Choice(NAMES)


@dataclass(frozen=True, kw_only=True)
@with_options_of(specs_of_methods(methods()))
class BatchOptions(TableOptions, CommonOptions):
    """Options of ``python -m flows.batch``: data to trained and evaluated model.

    Raises
    ------
    InputError
        For a value out of its range, a choice that is not available, or options that exclude each other;
        the message is one line that names the option, what was found and what was expected.
    """

    if TYPE_CHECKING:  # what methods declare becomes a field as the class is made

        def __init__(self, **values: Any) -> None: ...

    PROGRAM: ClassVar[str] = "flows.batch"
    DESCRIPTION: ClassVar[str] = (
        "Learn classes, numbers or what is unusual from a data set, test it on other rows, write a report. "
        "Without --dataset or --input, a small real data set that ships with a dependency is used."
    )

    dataset: str | None = option(None, Place("NAME"), group=DATA, common=True, help="a known data set, such as a9a")
    dataset_file: str | None = option(
        None, Place("FILE", here=True), group=DATA, help="TOML file that declares more data sets for --dataset"
    )
    input: str | None = option(
        None,
        Place("PATH|URL"),
        group=DATA,
        common=True,
        help="training data: a file, or a URL that fsspec can open; of tables also a folder, a glob in quotes, or "
        "files with commas between",
    )
    test_input: str | None = option(
        None, Place("PATH|URL"), group=DATA, common=True, help="test data for --input (default: split --input)"
    )
    test_size: float = option(
        0.2, Real(0, 1), group=DATA, common=True, help="share of the rows held out, where there is no test set"
    )
    split_by: str | None = option(
        None,
        Text("RULE"),
        group=DATA,
        help="how rows are divided into training and test rows, and into the folds of cross-validation: time:COLUMN "
        "(test rows come last), group:COLUMN (rows of a group stay together) or stratified (both have the classes' "
        "shares); the column stays a feature unless --drop names it too (default: at random)",
    )
    format: str = option("auto", FORMATS, group=DATA, help="format of the files; auto goes by the name")
    label: str | None = option(
        None,
        Text("COLUMN"),
        group=DATA,
        common=True,
        help="column that holds the label, in tables: a name, or a position from 0, or -1 (default: label, target, "
        "class or y; without names the last, for novelty none)",
    )
    above: float | None = option(
        None,
        Real(float("-inf")),
        group=DATA,
        common=True,
        help="make two classes of labels that are numbers: 1 above this one, else 0",
    )
    columns: int | None = option(
        None, Integer(1), group=DATA, help="number of columns of libsvm data (default: the largest index)"
    )
    scale: str = option(
        "none",
        Choice(("none", "minmax")),
        group=DATA,
        help="minmax maps each column to [0, 1] by the training rows, clipping the test rows",
    )
    task: str = option(
        "auto",
        Choice((AUTO, *task_words())),
        group=DATA,
        help="what to learn; auto: as the data set is defined, else by the labels",
    )
    inliers: tuple[str, ...] | None = option(
        None,
        Names(),
        group=DATA,
        help="labels of normal rows, for novelty: only rows with these are learned from, others evaluate (default: all "
        "rows are learned from)",
    )
    data_dir: str | None = option(
        None,
        Place("DIR", here=True),
        group=DATA,
        help="where data sets lie or are downloaded to (default: $IKMAP_DATA_DIR, else the user cache)",
    )

    partitioner: str = option(
        AUTO,
        OneOrMore(
            (AUTO, *MAPS),
            alone=(AUTO,),
        ),
        group=FEATURES,
        common=True,
        help=f"cells: {', '.join(f'{name} by {kind.about.title}' for name, kind in MAPS.items())}; "
        "auto: by the learner, mostly iforest; several (iforest,anne): side by side",
    )
    cv_rows: int = option(
        20_000,
        Integer(10),
        group=FEATURES,
        help="most training rows that --psi auto, --lifetime auto and --C auto look at; a sweep over lifetimes takes "
        "millions, as it goes through them block by block",
    )
    search: str = option(
        "race",
        Choice(("race", "full")),
        group=FEATURES,
        help="how --psi auto and --C auto search: race leaves out, after one and after three of the five folds, what "
        "has less than a chance of 1 in 100 to be chosen in the end; full tries everything on all folds",
    )
    select_by: str = option(
        "auto",
        Choice(("auto", *criteria())),
        group=FEATURES,
        help="what --psi auto and --C auto go by; auto: log loss of classes, squared error (R2) of numbers",
    )
    budget: float | None = option(
        None,
        Real(0, endless="leave --budget out for no limit"),
        group=FEATURES,
        common=True,
        help="seconds that --psi auto and --C auto may take; then the best of what has been scored is taken (default: "
        "no limit)",
    )

    learner: tuple[str, ...] = option(
        (AUTO,),
        Several(Choice((AUTO, *NAMES)), alone=(AUTO,)),
        group=LEARNING,
        common=True,
        help=f"what to train: any of {', '.join(NAMES)}; auto: "
        + ", ".join(f"{task.usual.learner} for {task.name}" for task in TASKS.values() if task.usual.learner),
    )
    order: str = option(
        "shuffled",
        Choice(("shuffled", "file")),
        group=LEARNING,
        help="order of the online learners' pass over the rows",
    )
    calibration: str = option(
        "none",
        Choice(("none", "platt", "isotonic")),
        group=LEARNING,
        help="turn decision values into probabilities, by a curve fitted to training rows that were not learned from; "
        "those of logistic are probabilities anyway",
    )
    threshold_for: str | None = option(
        None,
        Text("GOAL"),
        group=LEARNING,
        help="with two classes, from which decision value on the second one is predicted: chosen on training rows that "
        "were not learned from, for cost:MISSED:FALSE (cost:5:1: a missed row of the second class costs five times a "
        "false one), precision:P, recall:R, f1 or balanced (default: 0)",
    )

    importance: bool = option(
        False,
        Flag(),
        group=LEARNING,
        help="find out by how much each column matters, by shuffling its values among 10,000 test rows, and how the "
        "most important ones do; for the report",
    )

    seed: int = option(0, Integer(0, 2**63 - 1), group=RUN, common=True, help="seed of every random choice")
    run_dir: str | None = option(
        None,
        Place("DIR", here=True),
        group=RUN,
        common=True,
        session=True,
        environment="IKMAP_RUN_DIR",
        help="an unfinished run in it is resumed (default: runs/<dataset>-<time>)",
    )
    fresh: bool = option(
        False, Flag(), group=RUN, common=True, session=True, help="start over, discarding the run in --run-dir"
    )
    shard_rows: int | None = option(
        None,
        Integer(1),
        group=RUN,
        help="rows per task and stored object (advanced; default: sized to the workers' memory)",
    )
    device: str = option(
        "auto",
        Choice(("auto", "cpu", "gpu")),
        group=CLUSTER,
        help="what maps rows to cells: GPUs or processors; auto takes a GPU where a worker was given one "
        "(CUDA_VISIBLE_DEVICES)",
    )
    explain: bool = option(
        False,
        Flag(),
        group=OUTPUT,
        common=True,
        session=True,
        help="print the plan: how cells are found, tasks, memory, output size",
    )
    dry_run: bool = option(
        False,
        Flag(),
        group=OUTPUT,
        session=True,
        help="read the data, print the plan as --explain does, and stop; the same command without it goes on",
    )
    no_dask_report: bool = option(
        False,
        Flag(),
        group=OUTPUT,
        session=True,
        help="leave out dask-report.html, which Dask takes about half a second to draw",
    )

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
        self._resolve()

    @classmethod
    def parse(cls, argv: Sequence[str] | None = None) -> Self:
        try:
            return super().parse(argv)
        except InputError as error:
            # A name may be unknown because the package that has it could not be imported.
            faults = (
                FAULTS if str(error).startswith(("--learner", "--partitioner", "--kernel", "unknown option")) else []
            )
            raise InputError("; ".join((str(error), *faults))) from None

    @property
    def unused(self) -> frozenset[str]:
        used = {key for name in self.methods for part in names_of(name) for key in self.SCOPES[part]}
        return super().unused | (frozenset(self.METHOD_OPTIONS) - used)

    @property
    def map(self) -> str:
        """Name of the partitioner; "auto" as long as the learner is not known."""
        if self.partitioner != AUTO or self.learner == (AUTO,):
            return self.partitioner
        return map_for(self.learner)

    def _resolve(self) -> None:
        """Set ``methods``, the options of each chosen method by its name; refuse an option that changes nothing."""
        specs, found = self.specs(), f"found --learner {' '.join(self.learner)}"
        program = Program(self.PROGRAM, frozenset(self._learners()), "flows.batch", " ".join(self.learner))
        plain = {name: getattr(self, name) for name in self.METHOD_OPTIONS if name not in self.at_default}
        names = chosen(self.map, self.learner, plain, self.scoped, self.task)
        if "partitioner" not in self.at_default and self.map not in names:
            on_cells = [name for name, kind in LEARNERS.items() if kind.about.on == "cells"]
            raise InputError(
                f"--partitioner {self.partitioner}: {found}, which works without cells, expected one of "
                f"{', '.join(on_cells)}"
            )
        object.__setattr__(self, "methods", shared_out(names, plain, self.scoped, program))
        searched = searches_anything(names, self.methods)
        online = [name for name, kind in LEARNERS.items() if issubclass(kind, StreamLearner)]
        if "order" not in self.at_default and not set(online) & set(self.learner):
            raise InputError(f"--order {self.order}: {found}, expected one of {', '.join(online)}")
        parses: dict[str, Callable[[str], object]] = {"threshold_for": Threshold.parse, "split_by": SplitRule.parse}
        for name, parse in parses.items():
            if (word := getattr(self, name)) is not None:
                try:
                    parse(word)
                except ValueError as error:
                    raise InputError(f"{specs[name].flag}: {error}") from None
        for name in ("cv_rows", "search", "select_by", "budget"):
            if name not in self.at_default and not searched:
                words = shlex.join(specs[name].words(getattr(self, name)))
                raise InputError(
                    f"{words}: found nothing to choose, expected an option such as --psi or --C to be auto"
                )

    @classmethod
    def _learners(cls) -> tuple[str, ...]:
        """Names of those that the command has."""
        kind = cls.specs()["learner"].kind
        assert isinstance(kind, Several)
        return tuple(name for name in kind.choice.known if name != AUTO)
