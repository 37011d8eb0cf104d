"""The options of ``python -m flows.batch`` and ``flows.online``, and those that all commands share."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from cluster.settings import KINDS, family
from cluster.settings import check as check_settings
from flows._declare import Options, option
from flows._kinds import Choice, ClusterName, Flag, Integer, Pairs, Real, Several, Text
from ikmap.methods import LEARNER_OPTIONS, LEARNERS
from pipeline.errors import InputError

DATA, STREAM, FEATURES, LEARNING, BASELINES = "Data", "Stream", "Features", "Learning", "Baselines"
RUN, CLUSTER, OUTPUT = "Run", "Cluster", "Output"

FORMATS = Choice(("auto", "libsvm", "csv", "parquet", "npy"))
NAMES = tuple(LEARNERS)
LEARNER = Choice(NAMES)
ONLINE_LEARNER = Choice(tuple(name for name, learner in LEARNERS.items() if learner.way == "online"))
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
class BatchOptions(CommonOptions):
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
        None, Text("PATH|URL"), group=DATA, common=True, help="training data: a file, or a URL that fsspec can open"
    )
    test_input: str | None = option(
        None, Text("PATH|URL"), group=DATA, common=True, help="test data for --input (default: split --input)"
    )
    test_size: float = option(
        0.2, Real(0, 1), group=DATA, common=True, help="share of the rows held out, where there is no test set"
    )
    format: str = option("auto", FORMATS, group=DATA, help="format of the files; auto goes by the name")
    label: str | None = option(
        None, Text("COLUMN"), group=DATA, common=True, help="column that holds the label, in tables (csv, parquet)"
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
        Choice(("auto", "binary", "multiclass"), later=("regression", "novelty")),
        group=DATA,
        help="what to learn; auto goes by the labels",
    )
    data_dir: str | None = option(
        None,
        Text("DIR"),
        group=DATA,
        help="where data sets lie or are downloaded to (default: $IKMAP_DATA_DIR, else the user cache)",
    )

    partitioner: str = option(
        "anne",
        Choice(("anne", "iforest"), later=("gcws", "mondrian", "binning")),
        group=FEATURES,
        common=True,
        help="how space is cut into cells: by the nearest of psi points (anne), or by random trees",
    )
    t: int = option(100, Integer(1), group=FEATURES, help="partitionings, the integers per row")
    psi: int | str = option(
        "auto",
        Integer(1, word="auto"),
        group=FEATURES,
        common=True,
        help="cells per partitioning; auto: by cross-validation",
    )
    max_depth: str = option(
        "none",
        Choice(("none", "log2")),
        group=FEATURES,
        help="depth of the iforest trees: until every point is isolated, or ceil(log2 psi)",
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
        Real(0),
        group=FEATURES,
        common=True,
        help="seconds that --psi auto and --C auto may take; then the best of what has been scored is taken (default: "
        "no limit)",
    )

    learner: tuple[str, ...] = option(
        ("svm", "ogd"), Several(LEARNER), group=LEARNING, common=True, help=f"what to train: any of {', '.join(NAMES)}"
    )
    C: float | str | None = option(
        None,
        Real(0, words=("auto",)),
        group=LEARNING,
        help="weight of the loss of the batch learners, for features scaled so that K(x, x) = 1; auto chooses "
        "that of svm and logistic by cross-validation, with psi (default: for these two auto with --psi auto, else 5; "
        "for others 1)",
    )
    loss: str = option(
        "squared_hinge", Choice(("squared_hinge", "hinge")), group=LEARNING, help="loss of the linear SVMs"
    )
    tol: float = option(
        1e-3,
        Real(0),
        group=LEARNING,
        help="tolerance to stop at; for linear learners the certified relative duality gap",
    )
    eta: float = option(0.5, Real(0), group=LEARNING, help="step size of the online learners")
    feature_scale: str = option(
        "kernel",
        Choice(("kernel", "raw")),
        group=LEARNING,
        help="features that ogd and ogd-naive see: 1/sqrt(t), so that K(x, x) = 1, or 1",
    )
    order: str = option(
        "shuffled",
        Choice(("shuffled", "file")),
        group=LEARNING,
        help="order of the online learners' pass over the rows",
    )
    kernel: str = option(
        "laplacian",
        Choice(("laplacian", "gaussian")),
        group=BASELINES,
        help="kernel on the rows themselves, for kernel-ogd, kernel-svm, nogd and fourier-linear",
    )
    gamma: float | str = option(
        "psi",
        Real(0, words=("psi", "auto")),
        group=BASELINES,
        help="inverse width of that kernel: psi means ln(psi) / columns, auto chooses it by cross-validation",
    )
    b: int = option(100, Integer(1), group=BASELINES, help="points of nogd's map")
    rank: int | None = option(None, Integer(1), group=BASELINES, help="features of nogd (default: a fifth of b)")
    points: str = option(
        "uniform",
        Choice(("uniform", "violators")),
        group=BASELINES,
        help="nogd's points: drawn from the training rows, or the first rows with a margin below 1",
    )
    average: bool = option(False, Flag(), group=BASELINES, help="nogd predicts with the average of its weights")
    features: int = option(
        50, Integer(1), group=BASELINES, help="random frequencies of fourier-linear and of each kernel of adaraker"
    )
    decay: float | str = option(
        "auto",
        Real(0, words=("auto",)),
        group=BASELINES,
        help="lambda of adaraker and raker; auto chooses it by cross-validation",
    )
    flavour: str = option(
        "published",
        Choice(("published", "script")),
        group=BASELINES,
        help="adaraker as published, or as in its authors' reference script",
    )
    online_loss: str = option(
        "auto",
        Choice(("auto", "hinge", "logistic")),
        group=BASELINES,
        help="loss of adaraker and raker; auto: hinge, with --flavour script logistic",
    )
    sigma_is: str = option(
        "frequency",
        Choice(("frequency", "width")),
        group=BASELINES,
        help="what the sixteen numbers of adaraker's kernels are: factors of the frequencies, or widths",
    )
    chi2_order: int = option(0, Integer(0, 2), group=BASELINES, help="order of chi2-linear's map; the paper has 0")
    class_weight: str = option(
        "none",
        Choice(("none", "balanced")),
        group=LEARNING,
        help="balanced weighs each class by the inverse of its share",
    )
    solver: str = option(
        "auto",
        Choice(("auto", "memory", "block", "distributed")),
        group=LEARNING,
        help="how svm and logistic are solved: all rows in memory, block by block from a file, or in parts by many "
        "workers; auto goes by size",
    )
    parts: int | None = option(
        None,
        Integer(2),
        group=LEARNING,
        help="parts of the rows for --solver distributed (default: by size, 8 to 64)",
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
        if self.max_depth != "none" and self.partitioner != "iforest":
            raise InputError(f"--max-depth {self.max_depth}: found --partitioner {self.partitioner}, expected iforest")
        if self.parts is not None and self.solver not in ("auto", "distributed"):
            raise InputError(f"--parts {self.parts}: found --solver {self.solver}, expected distributed")
        if self.feature_scale == "raw" and "ogd-dual" in self.learner:
            raise InputError("--feature-scale raw: found --learner ogd-dual, whose kernel is scaled; expected ogd")
        if self.kernel == "gaussian" and self.gamma == "psi":
            raise InputError("--kernel gaussian: found --gamma psi, expected a number or auto: psi is Laplacian")
        if self.rank is not None and self.rank > self.b:
            raise InputError(f"--rank {self.rank}: found --b {self.b}, expected no more features than points")
        self._refuse_unused()

    def _refuse_unused(self) -> None:
        """Refuse options that no chosen learner uses: whoever gives one expects that it changes something."""
        specs = self.specs()
        chosen = [LEARNERS[name] for name in self.learner]
        found = f"found --learner {' '.join(self.learner)}"
        for spec in specs.values():
            value = getattr(self, spec.name)
            if spec.name not in LEARNER_OPTIONS or value == spec.default:
                continue
            if any(learner.uses(spec.name, self.gamma) for learner in chosen):
                continue
            given = shlex.join(spec.words(value))
            able = [name for name, learner in LEARNERS.items() if learner.uses(spec.name, self.gamma)]
            kind = specs["learner"].kind
            here = [name for name in able if isinstance(kind, Several) and name in kind.choice.names]
            if not here:
                raise InputError(f"{given}: found {self.PROGRAM}, expected flows.batch with {_one_of(able)}")
            raise InputError(f"{given}: {found}, expected {_one_of(here)}")
        if self.C == "auto" and not any(learner.takes_C for learner in chosen):
            able = [name for name, learner in LEARNERS.items() if learner.takes_C]
            raise InputError(f"--C auto: {found}, expected {_one_of(able)}")
        searched = self.C == "auto" or any(learner.searched(self) for learner in chosen)
        for name in ("cv_rows", "search", "budget"):
            value = getattr(self, name)
            if value != specs[name].default and not searched:
                words = shlex.join(specs[name].words(value))
                raise InputError(f"{words}: found nothing to choose, expected --psi, --C, ... auto")


def _one_of(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"one of {', '.join(names)}"


@dataclass(frozen=True, kw_only=True)
class OnlineOptions(BatchOptions):
    """Options of ``python -m flows.online``: a stream, every block predicted before it is learned from.

    Raises
    ------
    InputError
        As `BatchOptions`.
    """

    PROGRAM: ClassVar[str] = "flows.online"
    DESCRIPTION: ClassVar[str] = (
        "Predict and then learn from one block of rows after the other, with several learners on one stream. "
        "The first rows choose parameters and the map, which then stays as it is."
    )

    learner: tuple[str, ...] = option(
        ("ogd",),
        Several(ONLINE_LEARNER),
        group=LEARNING,
        common=True,
        help=f"what learns: any of {', '.join(ONLINE_LEARNER.names)}",
    )
    initial: int | None = option(
        None,
        Integer(2),
        group=STREAM,
        common=True,
        help="rows of the initial set (default: as many as there are training rows)",
    )
    block_rows: int = option(
        1000, Integer(1), group=STREAM, common=True, help="rows that are predicted, then learned from, together"
    )
    input: str | None = option(
        None,
        Text("PATH|URL|-"),
        group=DATA,
        common=True,
        help="rows of the stream: a file, a URL that fsspec can open, - for standard input, or a directory to which "
        "Parquet files are added",
    )
    order: str = option(
        "auto",
        Choice(("auto", "shuffled", "file")),
        group=STREAM,
        help="order of the stream; file: training before test file; auto: shuffled, where the stream has an end",
    )
    idle_seconds: float | None = option(
        None,
        Real(0),
        group=STREAM,
        help="a directory has come to its end when no file was added for so long (default: 60)",
    )
    limit_seconds: float | None = option(
        None, Real(0), group=STREAM, help="stop a learner that has predicted and learned for so long"
    )
    GROUPS: ClassVar[tuple[str, ...]] = (DATA, STREAM, FEATURES, LEARNING, BASELINES, RUN, CLUSTER, OUTPUT)

    def check_together(self) -> None:
        """Refuse options that exclude each other."""
        super().check_together()
        if self.initial is not None and self.test_size != self.specs()["test_size"].default:
            raise InputError("--initial and --test-size: found both, expected one of them")
