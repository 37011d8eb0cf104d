"""The options that all commands share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from cluster.settings import KINDS, family
from cluster.settings import check as check_settings
from flows.options.command_line import Options
from flows.options.declared import BASELINES, FEATURES, LEARNING, option
from flows.options.kinds import ClusterName, Pairs
from ikmap.methods.kinds import Choice, Flag, Integer, Text

DATA, STREAM, RUN, CLUSTER, OUTPUT = "Data", "Stream", "Run", "Cluster", "Output"

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
