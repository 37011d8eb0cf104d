"""Kubernetes manifests against their schemas, offline: the operator's own, and those of the Kubernetes client."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from cluster import certificates
from cluster.kubernetes import _secret, documents, start
from cluster.settings import check
from flows.options.batch import BatchOptions
from pipeline.errors import InputError
from tests import ROOT

FOLDER = ROOT / "cluster/kubernetes"
OPERATOR = ("dask_kubernetes", "operator/deployment/helm/dask-kubernetes-operator/crds")

needs_schemas = pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("dask_kubernetes", "kubernetes")),
    reason="needs dask-kubernetes, which is an extra",
)


MANIFESTS = [path for path in sorted(FOLDER.glob("*.yaml")) if path.name != "prefect.yaml"]  # that one is Prefect's


def shipped() -> list[dict[str, Any]]:
    return [document for path in MANIFESTS for document in yaml.safe_load_all(path.read_text())]


def made(*options: str, secure: bool = True, fewest: int = 2, most: int = 2) -> list[dict[str, Any]]:
    values = check("kubernetes", ["image=registry/ikmap:1", *options])
    return documents("ikmap-0a1b", fewest, most, 4 * 10**9, values, secure)


# --- the checker -----------------------------------------------------------------------------------------


def problems(document: dict[str, Any]) -> list[str]:
    """What is wrong with a document; unknown fields too, which Kubernetes would drop in silence."""
    if document["apiVersion"] == "kubernetes.dask.org/v1":
        schema = _operator_schema(document["kind"])
        found = [f"{error.json_path}: {error.message}" for error in Draft202012Validator(schema).iter_errors(document)]
        return found + [f"{where}: unknown field" for where in _unknown(document, schema, "$")]
    group, _, version = document["apiVersion"].rpartition("/")
    prefix = {"": "", "batch": "", "networking.k8s.io": "", "rbac.authorization.k8s.io": ""}[group]
    return list(_against_model(document, f"{prefix}{version.capitalize()}{document['kind']}", "$"))


@cache
def _operator_schema(kind: str) -> dict[str, Any]:
    package, folder = OPERATOR
    spec = importlib.util.find_spec(package)
    assert spec is not None
    assert spec.origin is not None
    path = Path(spec.origin).parent / folder / f"{kind.lower()}.yaml"
    definition = yaml.load(path.read_text(), getattr(yaml, "CSafeLoader", yaml.SafeLoader))["spec"]
    assert definition["names"]["kind"] == kind
    schema: dict[str, Any] = definition["versions"][0]["schema"]["openAPIV3Schema"]
    return schema


def _unknown(value: Any, schema: dict[str, Any], where: str) -> Iterator[str]:
    if schema.get("x-kubernetes-preserve-unknown-fields"):
        return
    if isinstance(value, dict) and "properties" in schema:
        for key, item in value.items():
            if key in schema["properties"]:
                yield from _unknown(item, schema["properties"][key], f"{where}.{key}")
            elif where != "$" or key not in ("apiVersion", "kind", "metadata"):
                yield f"{where}.{key}"
    elif isinstance(value, list) and "items" in schema:
        for number, item in enumerate(value):
            yield from _unknown(item, schema["items"], f"{where}[{number}]")


def _against_model(value: Any, kind: str, where: str) -> Iterator[str]:
    """Names, types and required fields by the Kubernetes client's models, which are made from the API's schema."""
    from kubernetes import client

    if match := re.fullmatch(r"[Ll]ist\[(.+)\]", kind):
        if not isinstance(value, list):
            yield f"{where}: expected a list"
            return
        for number, item in enumerate(value):
            yield from _against_model(item, match[1], f"{where}[{number}]")
        return
    if match := re.fullmatch(r"dict\(str, (.+)\)|[Dd]ict\[str, (.+)\]", kind):
        if not isinstance(value, dict):
            yield f"{where}: expected a mapping"
            return
        for key, item in value.items():
            yield from _against_model(item, match[1] or match[2], f"{where}.{key}")
        return
    plain = {"str": str, "int": int, "bool": bool, "object": object, "float": float, "datetime": str}
    if kind in plain:
        if not isinstance(value, plain[kind]) or (kind == "int" and isinstance(value, bool)):
            yield f"{where}: found {value!r}, expected {kind}"
        return
    model = getattr(client, kind)
    if not isinstance(value, dict):
        yield f"{where}: found {value!r}, expected {kind}"
        return
    names = {json: python for python, json in model.attribute_map.items()}
    for key, item in value.items():
        if key not in names:
            yield f"{where}.{key}: unknown field"
        else:
            yield from _against_model(item, model.openapi_types[names[key]], f"{where}.{key}")
    try:
        model(**{names[key]: item for key, item in value.items() if key in names})
    except ValueError as error:
        yield f"{where}: {error}"


@needs_schemas
@pytest.mark.parametrize(
    "document", shipped(), ids=lambda document: f"{document['kind']}-{document['metadata']['name']}"
)
def test_shipped_manifests_follow_their_schemas(document: dict[str, Any]) -> None:
    assert problems(document) == []


@needs_schemas
@pytest.mark.parametrize(
    "documents",
    [
        made(),
        made("gpus=2", "claim=data"),
        made("minimum=1", "maximum=9", fewest=1, most=9),
        made(secure=False),
        _secret("ikmap-0a1b", certificates.temporary()),
    ],
    ids=["plain", "gpus", "adaptive", "without TLS", "secret"],
)
def test_made_documents_follow_their_schemas(documents: list[dict[str, Any]]) -> None:
    assert [problem for document in documents for problem in problems(document)] == []


def changed(document: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    document = deepcopy(document)
    *keys, last = path.split(".")
    place: Any = document
    for key in keys:
        place = place[int(key)] if isinstance(place, list) else place[key]
    if value is None:
        del place[last]
    else:
        place[last] = value
    return document


@needs_schemas
@pytest.mark.parametrize(
    ("kind", "path", "value"),
    [
        ("DaskCluster", "spec.worker.replicas", "two"),
        ("DaskCluster", "spec.wroker", {}),
        ("DaskCluster", "spec.worker.spec.containers.0.imagee", "a"),
        ("DaskCluster", "spec.worker.spec.containers.0.name", None),
        ("DaskCluster", "spec.scheduler.service", None),
        ("DaskAutoscaler", "spec.minimum", None),
        ("Job", "spec.template.spec.containers.0.argz", ["a"]),
        ("Job", "spec.template", None),
        ("Job", "spec.backoffLimit", "ten"),
        ("PersistentVolumeClaim", "spec.accessModes", "ReadWriteMany"),
        ("NetworkPolicy", "spec.ingress.0.ports.0.prot", "TCP"),
        ("Role", "rules.0.verbs", "create"),
        ("RoleBinding", "roleRef", None),
    ],
)
def test_the_checker_sees_what_is_wrong(kind: str, path: str, value: dict[str, Any] | list[str] | str | None) -> None:
    document = next(document for document in shipped() if document["kind"] == kind)
    assert problems(document) == []
    assert problems(changed(document, path, value))


# --- what the documents say ------------------------------------------------------------------------------


def test_every_name_is_the_clusters() -> None:
    cluster, policy = made("claim=data")
    text = yaml.safe_dump_all([cluster, policy])
    assert set(re.findall(r"ikmap[\w.-]*", text)) == {
        "ikmap",
        "ikmap-0a1b",
        "ikmap-0a1b-tls",
        "ikmap-0a1b-scheduler",
    } | {
        "ikmap-tls"  # the folder in the pods
    }
    assert re.findall(r".*: ikmap$", text) == []
    assert {line.strip() for line in text.splitlines() if line.endswith(": ikmap")} == {"app.kubernetes.io/name: ikmap"}
    assert cluster["spec"]["worker"]["spec"]["volumes"][-1] == {
        "name": "runs",
        "persistentVolumeClaim": {"claimName": "data"},
    }


def arguments(cluster: dict[str, Any], role: str) -> list[str]:
    return list(cluster["spec"][role]["spec"]["containers"][0]["args"])


def test_scheduler_and_workers_speak_tls_unless_told_not_to() -> None:
    (cluster, _), (plain, _) = made(), made(secure=False)
    for role in ("scheduler", "worker"):
        assert {"--tls-ca-file=/etc/ikmap-tls/ca.crt", "--tls-key=/etc/ikmap-tls/tls.key"} <= set(
            arguments(cluster, role)
        )
        assert "tls" not in yaml.safe_dump(plain["spec"][role])
    assert "--protocol=tls" in arguments(cluster, "scheduler")
    assert "tls://ikmap-0a1b-scheduler:8786" in arguments(cluster, "worker")
    assert "tcp://ikmap-0a1b-scheduler:8786" in arguments(plain, "worker")


@pytest.mark.parametrize(("workers", "gpus", "pods"), [(8, None, 8), (8, 2, 4), (7, 2, 4), (1, 4, 1)])
def test_a_pod_has_a_worker_for_each_of_its_gpus(workers: int, gpus: int | None, pods: int) -> None:
    options = [] if gpus is None else [f"gpus={gpus}"]
    assert made(*options, fewest=workers, most=workers)[0]["spec"]["worker"]["replicas"] == pods
    (_, autoscaler, _) = made(*options, fewest=workers, most=10 * workers)
    assert (autoscaler["spec"]["minimum"], autoscaler["spec"]["maximum"]) == (pods, -(-10 * workers // (gpus or 1)))


def test_no_secret_is_in_a_manifest() -> None:
    text = yaml.safe_dump_all([*shipped(), *made()])
    assert "PRIVATE" not in text
    assert "CERTIFICATE" not in text
    assert set(re.findall(r"defaultMode: (\d+)", text)) == {str(0o440)}


def test_gpu_workers() -> None:
    cluster, _ = made("gpus=2", "rmm_pool=10GB")
    container = cluster["spec"]["worker"]["spec"]["containers"][0]
    assert container["resources"]["limits"]["nvidia.com/gpu"] == "2"
    assert arguments(cluster, "worker")[:3] == ["python", "-m", "dask_cuda.cli"]
    assert arguments(cluster, "worker")[-2:] == ["--rmm-pool-size", "10GB"]
    assert int(container["resources"]["limits"]["memory"]) > 2 * 4 * 10**9


def test_adaptive_clusters_have_an_autoscaler() -> None:
    kinds = [[document["kind"] for document in made(fewest=1, most=most)] for most in (1, 4)]
    assert kinds == [["DaskCluster", "NetworkPolicy"], ["DaskCluster", "DaskAutoscaler", "NetworkPolicy"]]
    autoscaler = made(fewest=1, most=4)[1]
    assert autoscaler["spec"] == {"cluster": "ikmap-0a1b", "minimum": 1, "maximum": 4}


def test_commands_of_the_manifests_are_understood() -> None:
    """By the programs that they start."""
    from distributed.cli.dask_scheduler import main as scheduler
    from distributed.cli.dask_worker import main as worker

    cluster, _ = made()
    for role, command in (("scheduler", scheduler), ("worker", worker)):
        python, m, module, *words = arguments(cluster, role)
        assert (python, m, module) == ("python", "-m", f"distributed.cli.dask_{role}")
        flags = {flag for parameter in command.params for flag in parameter.opts}
        assert {word.partition("=")[0] for word in words if word.startswith("--")} <= flags
    autoscaler = next(document for document in shipped() if document["kind"] == "DaskAutoscaler")
    job = next(document for document in shipped() if document["kind"] == "Job")
    python, m, module, *words = job["spec"]["template"]["spec"]["containers"][0]["args"]
    assert (python, m, module) == ("python", "-m", "flows.batch")
    options = BatchOptions.parse(words)
    assert options.cluster == "tls://ikmap-scheduler:8786"
    assert check(options.cluster, options.cluster_option) == {
        "tls": "/etc/ikmap-tls",
        "wait": 600,
        "maximum": autoscaler["spec"]["maximum"],
    }


@pytest.mark.parametrize("text", [None, "garbage: [", "", "a: 1", "clusters: []\ncontexts: []\ncurrent-context: ''\n"])
@pytest.mark.parametrize("more", [{}, {"namespace": "ours"}])
def test_without_a_cluster_that_can_be_read_it_says_where_it_looked(
    text: str | None, more: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("kr8s")
    config = tmp_path / "config.yaml"
    if text is not None:
        config.write_text(text)
    monkeypatch.setenv("KUBECONFIG", str(config))
    with pytest.raises(
        InputError, match=r"^--cluster kubernetes: no cluster can be read from .*config.yaml \(.*\); set K"
    ):
        start(workers=1, memory_limit=None, values={"image": "ours", **more}, say=print)
