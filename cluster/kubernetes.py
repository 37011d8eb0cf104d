"""Workers as pods of the Dask operator, from the manifest in ``cluster/kubernetes``.

dask-kubernetes' own ``KubeCluster`` speaks no TLS, so the operator's resources are made and awaited here: a cluster, a
secret with the certificates, a network policy and, with ``maximum``, an autoscaler. All belong to the cluster's
resource and go away with it.
"""

from __future__ import annotations

import asyncio
import os
import re
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from distributed import Client, Security

from cluster import certificates, remote
from cluster._starting import starting
from cluster.handle import ClusterHandle
from cluster.settings import scale
from pipeline.errors import InputError

MANIFEST = Path(__file__).with_name("kubernetes") / "daskcluster.yaml"
API = "kubernetes.dask.org/v1"
SCHEDULER_PORT, DASHBOARD_PORT = 8786, 8787
#: A container needs so much beside what Dask counts as a worker's memory.
CONTAINER_SHARE = 1.125
#: Of the service that the operator makes, and of a forwarded port.
SERVICE_SECONDS = 120.0


def start(
    *, workers: int | None, memory_limit: str | None, values: Mapping[str, Any], say: Callable[[str], None]
) -> ClusterHandle:
    """Make a cluster of the operator's and connect to it.

    Raises
    ------
    InputError
        When no Kubernetes answers, or the operator makes nothing of it, or no worker comes.
    """
    fewest, most = scale("kubernetes", workers, values)
    if "image" not in values:
        raise InputError("--cluster kubernetes: required, not given: --cluster-option image=NAME")
    import httpx
    import kr8s

    default = _default_namespace()  # also finds out whether there is a cluster at all
    namespace = values.get("namespace") or default
    security = certificates.of(values, "kubernetes", say)
    name = f"ikmap-{secrets.token_hex(4)}"
    wanted = documents(name, fewest, most, remote.memory_of(memory_limit), values, security is not None)
    with ExitStack() as stack:
        with starting("kubernetes", stack):
            stack.enter_context(remote.patient(values, most))
            try:
                cluster = _create(wanted[0], namespace)
                stack.callback(cluster.delete, propagation_policy="Background")
                for document in [*wanted[1:], *_secret(name, security)]:
                    document["metadata"]["ownerReferences"] = [owner(name, cluster.metadata["uid"])]
                    _create(document, namespace)
                host, ports = stack.enter_context(_reachable(f"{name}-scheduler", namespace))
            except (kr8s.ServerError, kr8s.NotFoundError, kr8s.APITimeoutError, httpx.HTTPError, OSError) as error:
                reason = " ".join(str(error).split()) or type(error).__name__
                raise InputError(f"--cluster kubernetes: {reason}") from None
            scheme = "tcp" if security is None else "tls"
            client = stack.enter_context(Client(f"{scheme}://{host}:{ports[SCHEDULER_PORT]}", security=security))
        handle = remote.connected(client, "kubernetes", stack, fewest, values, say)
        handle.dashboard_link = f"http://{host}:{ports[DASHBOARD_PORT]}/status"
        handle.tunnel = f"kubectl port-forward -n {namespace} service/{name}-scheduler {DASHBOARD_PORT}"
        return handle


def _default_namespace() -> str:
    """Return the namespace of the current context, or of the pod that this process runs in.

    Raises
    ------
    InputError
        There are no credentials for a Kubernetes cluster, or they cannot be read.
    """
    import kr8s

    try:
        return str(kr8s.api().namespace)
    except Exception as error:  # whatever the library stumbles over in a file that is not ours
        reason = " ".join(str(error).split()) or type(error).__name__
        where = os.environ.get("KUBECONFIG", "~/.kube/config")
        raise InputError(
            f"--cluster kubernetes: no cluster can be read from {where} ({reason}); set KUBECONFIG to the file that "
            "kubectl uses, or run inside a pod with a service account"
        ) from None


def documents(
    name: str, fewest: int, most: int, memory: int, values: Mapping[str, Any], secure: bool
) -> list[dict[str, Any]]:
    """The manifest, filled in: the cluster first, then what belongs to it. No secret is in it.

    Parameters
    ----------
    fewest, most
        Workers.
    memory
        Bytes of each worker.
    secure
        Whether scheduler and workers speak TLS; else the certificates are left out.
    """
    import yaml

    text = MANIFEST.read_text()
    # Every name in the manifest is that of the cluster, or begins with it.
    text = re.sub(r"(?m)(name: |cluster: |cluster-name: |secretName: |tls://)ikmap\b(?!:)", rf"\g<1>{name}", text)
    text = text.replace(f"app.kubernetes.io/name: {name}", "app.kubernetes.io/name: ikmap")
    cluster, autoscaler, policy = yaml.safe_load_all(text)
    scheduler, worker = cluster["spec"]["scheduler"]["spec"], cluster["spec"]["worker"]["spec"]
    gpus = int(values.get("gpus", 0))
    fewest, most = (-(-workers // max(1, gpus)) for workers in (fewest, most))  # pods, with a worker for each GPU
    cluster["spec"]["worker"]["replicas"] = fewest
    container = worker["containers"][0]
    for pod in (scheduler, worker):
        pod["containers"][0]["image"] = values["image"]
        if not secure:
            _leave_out(pod, "tls")
            arguments = [word for word in pod["containers"][0]["args"] if not word.startswith("--tls-")]
            pod["containers"][0]["args"] = [re.sub(r"^(--protocol=)?tls\b", r"\1tcp", word) for word in arguments]
    if "claim" in values:
        worker["volumes"][-1]["persistentVolumeClaim"]["claimName"] = values["claim"]
    else:
        _leave_out(worker, "runs")
    container["args"] = [
        f"--memory-limit={remote.size_word(memory)}" if word.startswith("--memory-limit") else word
        for word in container["args"]
    ]
    size = f"{int(memory * max(1, gpus) * CONTAINER_SHARE)}"
    container["resources"] = {"requests": {"cpu": str(max(1, gpus)), "memory": size}, "limits": {"memory": size}}
    if gpus:
        container["resources"]["limits"]["nvidia.com/gpu"] = str(gpus)
        words = ["dask_cuda.cli" if word == "distributed.cli.dask_worker" else word for word in container["args"]]
        container["args"] = [*words, *remote.gpu_words(values)]
    autoscaler["spec"] |= {"minimum": fewest, "maximum": most}
    return [cluster, *([autoscaler] if most > fewest else []), policy]


def _leave_out(pod: dict[str, Any], volume: str) -> None:
    pod["volumes"] = [entry for entry in pod["volumes"] if entry["name"] != volume]
    for container in pod["containers"]:
        container["volumeMounts"] = [entry for entry in container["volumeMounts"] if entry["name"] != volume]


def _secret(name: str, security: Security | None) -> list[dict[str, Any]]:
    if security is None:
        return []
    metadata = {"name": f"{name}-tls"}
    return [{"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": certificates.contents(security)}]


def owner(name: str, uid: str) -> dict[str, str]:
    """Reference to the cluster, which makes Kubernetes remove a resource with it."""
    return {"apiVersion": API, "kind": "DaskCluster", "name": name, "uid": uid}


def _create(document: dict[str, Any], namespace: str) -> Any:
    from kr8s.objects import object_from_spec

    document["metadata"]["namespace"] = namespace
    made = object_from_spec(document, allow_unknown_type=True)
    made.create()
    return made


@contextmanager
def _reachable(service: str, namespace: str) -> Iterator[tuple[str, dict[int, int]]]:
    """Host and ports of the scheduler: by its name within Kubernetes, else forwarded to this machine."""
    ports = (SCHEDULER_PORT, DASHBOARD_PORT)
    _await_service(service, namespace)
    if "KUBERNETES_SERVICE_HOST" in os.environ:
        yield f"{service}.{namespace}.svc", {port: port for port in ports}
        return
    with _forwarded(service, namespace, ports) as forwarded:
        yield "127.0.0.1", forwarded


def _await_service(service: str, namespace: str) -> None:
    """Wait until the operator has made the service and the scheduler behind it is ready."""
    import kr8s
    from kr8s.objects import Service

    deadline = time.monotonic() + SERVICE_SECONDS
    while True:
        try:
            if Service.get(service, namespace=namespace, timeout=1).ready():
                return
        except kr8s.NotFoundError:
            pass
        if time.monotonic() > deadline:
            raise InputError(
                f"--cluster kubernetes: no scheduler in {namespace} after {SERVICE_SECONDS:g} seconds; "
                f"kubectl get pods,events -n {namespace} tells whether the image can be pulled, and "
                "kubectl get pods -A whether the Dask operator runs (docs/clusters.md)"
            )
        time.sleep(0.5)


@contextmanager
def _forwarded(service: str, namespace: str, ports: tuple[int, ...]) -> Iterator[dict[int, int]]:
    """Forward ports of a service to free ones of this machine, by a thread of its own."""
    from kr8s.asyncio.objects import Service

    forwarded: dict[int, int] = {}
    ready, failed = threading.Event(), list[BaseException]()
    loop = asyncio.new_event_loop()
    stop = asyncio.Event()

    async def forward() -> None:
        try:
            target = await Service.get(service, namespace=namespace)
            tunnels = [target.portforward(port, local_port="auto") for port in ports]
            for port, tunnel in zip(ports, tunnels, strict=True):
                forwarded[port] = await tunnel.start()
            ready.set()
            await stop.wait()
            for tunnel in tunnels:
                await tunnel.stop()
        except Exception as error:
            failed.append(error)
            ready.set()

    thread = threading.Thread(target=loop.run_until_complete, args=(forward(),), name="ikmap-forward", daemon=True)
    thread.start()
    try:
        if not ready.wait(SERVICE_SECONDS) or failed:
            raise ConnectionError(f"{service}: cannot be forwarded: {failed[0] if failed else 'no answer'}")
        yield forwarded
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(SERVICE_SECONDS)
