"""The options of ``python -m flows.reproduce``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from flows.options import CLUSTER, DATA, OUTPUT, RUN, STREAM, CommonOptions
from ikmap.methods import option
from ikmap.methods.kinds import Choice, Flag, Integer, Names, Real, Several, Text
from pipeline.errors import InputError

EXPERIMENTS, READINGS = "Experiments", "Readings"


@dataclass(frozen=True, kw_only=True)
class ReproduceOptions(CommonOptions):
    """Options of ``python -m flows.reproduce``: the tables and figures of the paper, ours beside what was printed.

    Raises
    ------
    InputError
        As :class:`~flows.options.BatchOptions`.
    """

    PROGRAM: ClassVar[str] = "flows.reproduce"
    DESCRIPTION: ClassVar[str] = (
        "Run tables and figures of the Isolation Kernel paper on the data sets that are there, and write a page with "
        "our numbers beside the printed ones. Runs that are finished are not done again: give the same --run-dir."
    )
    GROUPS: ClassVar[tuple[str, ...]] = (EXPERIMENTS, READINGS, DATA, STREAM, RUN, CLUSTER, OUTPUT)

    table: tuple[str, ...] | None = option(
        None, Several(Choice(("3", "4", "5", "6", "7", "8"))), group=EXPERIMENTS, common=True, help="tables to run"
    )
    figure: tuple[str, ...] | None = option(
        None, Several(Choice(("1", "2", "3", "4", "5"))), group=EXPERIMENTS, common=True, help="figures to draw"
    )
    section: tuple[str, ...] | None = option(
        None,
        Several(Choice(("8.1.1",))),
        group=EXPERIMENTS,
        common=True,
        help="sections whose claim to measure; 8.1.1: primal against dual prediction",
    )
    datasets: tuple[str, ...] | None = option(
        None,
        Names(),
        group=EXPERIMENTS,
        common=True,
        help="data sets to run on (default: those that the paper has there)",
    )
    systems: tuple[str, ...] | None = option(
        None,
        Names(),
        group=EXPERIMENTS,
        common=True,
        help="systems to run, by their names on the page (default: all of a table)",
    )

    depth: str = option(
        "all", Choice(("all", "none", "log2")), group=READINGS, help="depth of the iForest trees, which is open"
    )
    score_scale: str = option(
        "all", Choice(("all", "kernel", "raw")), group=READINGS, help="scale of the score of IK-OGD: 1/t or none"
    )
    svm_scale: str = option(
        "all", Choice(("all", "kernel", "raw")), group=READINGS, help="scale of the features of the IK_a-SVM"
    )
    svm_C: str = option(
        "all", Choice(("all", "1", "0.01", "0.1", "10", "100")), group=READINGS, help="C of the linear SVMs"
    )
    svm_loss: str = option(
        "all", Choice(("all", "squared_hinge", "hinge")), group=READINGS, help="loss of the linear SVMs"
    )
    nogd: str = option(
        "all",
        Choice(("all", "averaged", "last", "violators", "library")),
        group=READINGS,
        help="NOGD: points drawn, weights averaged or those of the last step; or points that violate the margin, "
        "weights of the last step or (library) averaged",
    )
    adaraker: str = option(
        "all", Choice(("all", "published", "script")), group=READINGS, help="AdaRaker as published or as in its script"
    )

    data_dir: str | None = option(
        None,
        Text("DIR"),
        group=DATA,
        common=True,
        help="where the data sets lie (default: $IKMAP_DATA_DIR, else the user cache); nothing is downloaded",
    )
    dataset_file: str | None = option(
        None, Text("FILE"), group=DATA, help="TOML file that declares more data sets for --datasets"
    )
    order: str = option(
        "shuffled",
        Choice(("shuffled", "file")),
        group=STREAM,
        help="order of the streams; file: for data in time order",
    )
    initial: int | None = option(
        None, Integer(2), group=STREAM, help="rows of the streams' initial sets (default: as many as training rows)"
    )

    seed: int = option(0, Integer(0, 2**63 - 1), group=RUN, common=True, help="seed of every random choice")
    limit_seconds: float = option(
        43_200.0,
        Real(0),
        group=RUN,
        common=True,
        help="stop a run that has taken so long, and mark it; the paper: 12 hours for SVMs",
    )
    run_dir: str | None = option(
        None,
        Text("DIR"),
        group=RUN,
        common=True,
        session=True,
        environment="IKMAP_RUN_DIR",
        help="directory of all runs and of the page (default: runs/isolation-kernel)",
    )
    fresh: bool = option(False, Flag(), group=RUN, common=True, session=True, help="do all runs again")

    def check_together(self) -> None:
        """Refuse a command that asks for nothing."""
        if not (self.table or self.figure or self.section):
            raise InputError("--table, --figure, --section: found none of them, expected what to reproduce")
        if self.systems and not self.table:
            raise InputError("--systems: found without --table, expected both")

    @property
    def readings(self) -> dict[str, str]:
        """What to take of each reading: a value or "all"."""
        return {name: getattr(self, name) for name, spec in self.specs().items() if spec.group == READINGS}
