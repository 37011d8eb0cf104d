"""``python -m cluster.targets ADDRESS``: where scheduler and workers show their metrics, as Prometheus reads it.

The output is for ``file_sd_configs`` (cluster/monitoring/prometheus.yml). Write it again when workers have changed.
"""

from __future__ import annotations

import json
import sys
from typing import Any
from urllib.parse import urlsplit

from cluster import ClusterHandle, connect
from pipeline.errors import InputError


def targets(cluster: ClusterHandle) -> list[dict[str, Any]]:
    """Groups of addresses, host and port, of the processes that have a dashboard."""
    info = cluster.client.scheduler_info(n_workers=-1)
    groups = []
    if port := info["services"].get("dashboard"):
        groups.append({"targets": [f"{urlsplit(info['address']).hostname}:{port}"], "labels": {"process": "scheduler"}})
    workers = [(worker["host"], worker["services"].get("dashboard")) for worker in info["workers"].values()]
    found = sorted(f"{host}:{port}" for host, port in workers if port)
    return [*groups, {"targets": found, "labels": {"process": "worker"}}]


def main(arguments: list[str]) -> int:
    """Print the groups as JSON."""
    if len(arguments) != 1:
        print("usage: python -m cluster.targets ADDRESS (tcp://host:port or tls://host:port)", file=sys.stderr)
        return 2
    try:
        with connect(arguments[0]) as cluster:
            print(json.dumps(targets(cluster), indent=1))
    except InputError as error:
        print(f"cluster.targets: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
