"""The options that all commands share."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from annotated_types import Ge

from cluster.settings import KINDS, PREFIX, SETTINGS, family
from cluster.settings import check as check_settings
from flows.options.command_line import Options
from flows.options.kinds import ClusterName, Pairs
from flows.options.option import BASELINES, FEATURES, LEARNING, Environment, FlagOnly, On, Session
from ikmap.methods import Doc
from ikmap.methods.kinds import Choice, Text
from pipeline.errors import InputError

DATA, STREAM, RUN, CLUSTER, OUTPUT = "Data", "Stream", "Run", "Cluster", "Output"


class CommonOptions(Options):
    """Options that all commands share."""

    GROUPS: ClassVar[tuple[str, ...]] = (DATA, FEATURES, LEARNING, BASELINES, RUN, CLUSTER, OUTPUT)

    cluster: Annotated[
        str,
        ClusterName(Choice(KINDS)),
        Doc(
            "where it runs: processes of this machine (cuda: of its GPUs), Slurm jobs (srun: those of "
            "the allocation around this command), Kubernetes pods, a running Dask scheduler"
        ),
        On(CLUSTER, page=1),
        Environment("IKMAP_CLUSTER"),
    ] = "local"
    cluster_option: Annotated[
        tuple[str, ...],
        Pairs(),
        Doc("a setting of that cluster, such as queue=main; may be given several times (docs/clusters.md lists them)"),
        On(CLUSTER),
    ] = ()
    workers: Annotated[
        int | None,
        Ge(1),
        Doc("worker processes, one thread each (default: the usable cores, or GPUs)"),
        On(CLUSTER, page=1),
        Environment("IKMAP_WORKERS"),
    ] = None
    memory_limit: Annotated[
        str | None,
        Text("SIZE"),
        Doc("memory of each worker, as in 4GB (default: a share of what is free)"),
        On(CLUSTER, page=1),
        Environment("IKMAP_MEMORY_LIMIT"),
    ] = None
    debug: Annotated[bool, Doc("show the traceback when the command fails"), On(OUTPUT), Session(), FlagOnly()] = False
    quiet: Annotated[bool, Doc("no progress, only the result"), On(OUTPUT, page=1), Session()] = False

    @classmethod
    def defaults_of_site(cls, environment: dict[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
        """Return all of it but the size of clusters that are not of ours, or that grow as they are needed.

        Raises
        ------
        InputError
            If the environment gives both a number of workers and the most of them, and nothing else decides.
        """
        kind = family(given.get("cluster", environment.get("cluster", "local")))
        adaptive = any(word.startswith("maximum=") for word in given.get("cluster_option", ()))
        left_out = {"workers", "memory_limit"} if kind == "address" else {"workers"} if adaptive else set()
        kept = {name: value for name, value in environment.items() if name not in left_out}
        bound = f"{PREFIX}MAXIMUM"
        if "workers" in kept.keys() - given.keys() and kind in SETTINGS["maximum"].kinds and bound in os.environ:
            raise InputError(
                f"IKMAP_WORKERS={kept['workers']} and {bound}={os.environ[bound]}: found both, expected one of them; "
                "type --workers N or --cluster-option maximum=N, which win over both"
            )
        return kept

    def check_together(self) -> None:
        """Refuse a setting that the cluster does not have."""
        check_settings(self.cluster, self.cluster_option)
