"""``python -m cluster.targets ADDRESS [tls=DIR]``: where scheduler and workers show their metrics, for Prometheus.

The output is for ``file_sd_configs`` (cluster/monitoring/prometheus.yml). Write it again when workers have changed.
"""

from __future__ import annotations

import json
import socket
import sys
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from cluster import ClusterHandle, connect
from cluster.closed import METRICS
from cluster.handle import nearest
from pipeline.errors import InputError
from pipeline.running.workers import workers_of
from pipeline.urls import apart

ANSWER_SECONDS = 2.0


def targets(cluster: ClusterHandle) -> tuple[list[dict[str, Any]], int]:
    """Groups of addresses, host and port, of the processes whose dashboards are reached from here.

    Processes of our clusters have a path of their own, and so each has a group.

    Returns
    -------
    list of dict
    int
        How many are not: they listen on the loopback interface of another machine, perhaps.
    """
    info = cluster.client.scheduler_info()
    processes: list[tuple[str, str, Mapping[str, Any]]] = [("scheduler", apart(info["address"]).host, info)]
    processes += [("worker", worker["host"], worker) for worker in workers_of(cluster.client).values()]
    addresses: dict[tuple[str, str], list[str]] = defaultdict(list)
    hidden = 0
    for process, host, pages in processes:
        if port := pages["services"].get("dashboard"):
            near = nearest(host, port)
            if _answers(near, port):
                addresses[process, pages.get(METRICS, "/metrics")].append(f"{near}:{port}")
            else:
                hidden += 1
    groups = [
        {"targets": sorted(places), "labels": {"process": process, "__metrics_path__": path}}
        for (process, path), places in addresses.items()
    ]
    return groups, hidden


def _answers(host: str, port: int) -> bool:
    try:
        with socket.create_connection((host, port), timeout=ANSWER_SECONDS):
            return True
    except OSError:
        return False


def _warn(line: str) -> None:
    print(f"cluster.targets: {line}", file=sys.stderr)


def main(arguments: list[str]) -> int:
    """Print the groups as JSON."""
    if not arguments or arguments[0].startswith("-"):
        usage = "usage: python -m cluster.targets ADDRESS [tls=DIR]   (tcp://host:port, tls://host:port, file:PATH)"
        print(usage, file=sys.stderr)
        return 0 if arguments[:1] in (["--help"], ["-h"]) else 2
    try:
        with connect(arguments[0], options=arguments[1:], say=_warn) as cluster:
            groups, hidden = targets(cluster)
    except InputError as error:
        print(f"cluster.targets: {error}", file=sys.stderr)
        return 2
    print(json.dumps(groups, indent=1))
    if hidden:
        line = "left out, as they do not answer here; perhaps they listen on 127.0.0.1 of their hosts"
        print(f"cluster.targets: {hidden} of the processes {line}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
