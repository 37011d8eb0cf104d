"""The options of ``python -m flows.batch``, and those that all commands share."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from cluster.settings import KINDS, family
from cluster.settings import check as check_settings
from flows.options.command_line import Options
from flows.options.kinds import ClusterName, Pairs
from flows.options.methods import with_options_of
from flows.options.table import TableOptions
from ikmap.methods import LEARNERS, MAPS, OptionError, methods, option
from ikmap.methods.kinds import Choice, Flag, Integer, Names, OneOrMore, Real, Several, Text
from ikmap.methods.options import BASELINES, FEATURES, LEARNING
from ikmap.methods.registry import FAULTS, names_of
from ikmap.methods.sharing import Program, chosen, map_for, searches_anything, shared_out
from ikmap.tasks import AUTO, task_words
from pipeline.errors import InputError

DATA, RUN, CLUSTER, OUTPUT = "Data", "Run", "Cluster", "Output"

FORMATS = Choice(("auto", "libsvm", "csv", "parquet", "npy", "arrow"))
NAMES = tuple(LEARNERS)
LEARNER = Choice(NAMES)
CLUSTERS = Choice(KINDS)


@dataclass(frozen=True, kw_only=True)
class CommonOptions(Options):
    """What all commands share."""

    GROUPS: ClassVar[tuple[str, ...]] = (DATA, FEATURES, LEARNING, BASELINES, RUN, CLUSTER, OUTPUT)

    cluster: str = option(
        "local",
        ClusterName(CLUSTERS),
        group=CLUSTER,
        common=True,
        environment="IKMAP_CLUSTER",
        help="where it runs: processes of this machine (cuda: of its GPUs), Slurm jobs (srun: those of "
        "the allocation around this command), Kubernetes pods, a running Dask scheduler",
    )
    cluster_option: tuple[str, ...] = option(
        (),
        Pairs(),
        group=CLUSTER,
        help="a setting of that cluster, such as queue=main; may be given several times (docs/clusters.md lists them)",
    )
    workers: int | None = option(
        None,
        Integer(1),
        group=CLUSTER,
        common=True,
        environment="IKMAP_WORKERS",
        help="worker processes, one thread each (default: the usable cores, or GPUs)",
    )
    memory_limit: str | None = option(
        None,
        Text("SIZE"),
        group=CLUSTER,
        common=True,
        environment="IKMAP_MEMORY_LIMIT",
        help="memory of each worker, as in 4GB (default: a share of what is free)",
    )
    debug: bool = option(
        False,
        Flag(),
        group=OUTPUT,
        session=True,
        flag_only=True,
        help="show the traceback when the command fails",
    )
    quiet: bool = option(False, Flag(), group=OUTPUT, common=True, session=True, help="no progress, only the result")

    @classmethod
    def defaults_of_site(cls, environment: dict[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
        """All of it but the size of clusters that are not of ours, or that grow as they are needed."""
        kind = family(given.get("cluster", environment.get("cluster", "local")))
        adaptive = any(word.startswith("maximum=") for word in given.get("cluster_option", ()))
        left_out = {"workers", "memory_limit"} if kind == "address" else {"workers"} if adaptive else set()
        return {name: value for name, value in environment.items() if name not in left_out}

    def check_together(self) -> None:
        """Refuse a setting that the cluster does not have."""
        check_settings(self.cluster, self.cluster_option)


@dataclass(frozen=True, kw_only=True)
@with_options_of(methods())
class BatchOptions(TableOptions, CommonOptions):
    """Options of ``python -m flows.batch``: data to trained and evaluated model.

    Raises
    ------
    InputError
        For a value out of its range, a choice that is not available, or options that exclude each other;
        the message is one line that names the option, what was found and what was expected.
    """

    PROGRAM: ClassVar[str] = "flows.batch"
    DESCRIPTION: ClassVar[str] = (
        "Train classifiers on a data set, evaluate them on rows held out, and write a report. "
        "Without --dataset or --input, a small real data set that ships with a dependency is used."
    )

    dataset: str | None = option(None, Text("NAME"), group=DATA, common=True, help="a known data set, such as a9a")
    dataset_file: str | None = option(
        None, Text("FILE"), group=DATA, help="TOML file that declares more data sets for --dataset"
    )
    input: str | None = option(
        None,
        Text("PATH|URL"),
        group=DATA,
        common=True,
        help="training data: a file, or a URL that fsspec can open; of tables also a folder, a glob in quotes, or "
        "files with commas between",
    )
    test_input: str | None = option(
        None, Text("PATH|URL"), group=DATA, common=True, help="test data for --input (default: split --input)"
    )
    test_size: float = option(
        0.2, Real(0, 1), group=DATA, common=True, help="share of the rows held out, where there is no test set"
    )
    format: str = option("auto", FORMATS, group=DATA, help="format of the files; auto goes by the name")
    label: str | None = option(
        None,
        Text("COLUMN"),
        group=DATA,
        common=True,
        help="column that holds the label, in tables: a name, a position from 0, or -1 for the last (default: label, "
        "target, class or y; without names the last)",
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
        Text("DIR"),
        group=DATA,
        help="where data sets lie or are downloaded to (default: $IKMAP_DATA_DIR, else the user cache)",
    )

    partitioner: str = option(
        "auto",
        OneOrMore(
            ("auto", *MAPS),
            alone=("auto",),
        ),
        group=FEATURES,
        common=True,
        help=f"cells: {', '.join(f'{name} by {one.title}' for name, one in MAPS.items())}; "
        "auto: by the learner; several (iforest,anne): side by side",
    )
    cv_rows: int = option(
        20_000, Integer(10), group=FEATURES, help="most training rows that --psi auto and --C auto look at"
    )
    search: str = option(
        "race",
        Choice(("race", "full")),
        group=FEATURES,
        help="how --psi auto and --C auto search: race leaves out, after one and after three of the five folds, what "
        "has less than a chance of 1 in 100 to be chosen in the end; full tries everything on all folds",
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
        ("svm", "ogd"), Several(LEARNER), group=LEARNING, common=True, help=f"what to train: any of {', '.join(NAMES)}"
    )
    order: str = option(
        "shuffled",
        Choice(("shuffled", "file")),
        group=LEARNING,
        help="order of the online learners' pass over the rows",
    )

    seed: int = option(0, Integer(0, 2**63 - 1), group=RUN, common=True, help="seed of every random choice")
    run_dir: str | None = option(
        None,
        Text("DIR"),
        group=RUN,
        common=True,
        session=True,
        environment="IKMAP_RUN_DIR",
        help="run directory; an unfinished run is resumed (default: runs/<dataset>-<time>)",
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
        """Name of the partitioner."""
        return map_for(self.learner) if self.partitioner == "auto" else self.partitioner

    def _resolve(self) -> None:
        """Set ``methods``, the options of each chosen method by its name; refuse an option that changes nothing."""
        specs, found = self.specs(), f"found --learner {' '.join(self.learner)}"
        program = Program(self.PROGRAM, frozenset(self._learners()), "flows.batch")
        plain = {name: getattr(self, name) for name in self.METHOD_OPTIONS if name not in self.at_default}
        try:
            of = chosen(self.map, self.learner, plain, self.scoped)
            if "partitioner" not in self.at_default and self.map not in of:
                on_cells = [name for name, learner in LEARNERS.items() if learner.on == "cells"]
                raise OptionError(
                    f"--partitioner {self.partitioner}: {found}, which works without cells, expected one of "
                    f"{', '.join(on_cells)}"
                )
            object.__setattr__(self, "methods", shared_out(of, plain, self.scoped, program))
            searched = searches_anything(of, self.methods)
        except OptionError as error:
            raise InputError(str(error)) from None
        online = [name for name, learner in LEARNERS.items() if learner.way == "online"]
        if "order" not in self.at_default and not set(online) & set(self.learner):
            raise InputError(f"--order {self.order}: {found}, expected one of {', '.join(online)}")
        for name in ("cv_rows", "search", "budget"):
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
        return kind.choice.known
