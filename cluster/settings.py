"""The settings of each kind of cluster: declared once, checked before anything starts.

Only the standard library is imported, so that a mistyped option answers at once.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from pipeline.errors import InputError

KINDS = ("local", "cuda", "slurm", "srun", "kubernetes")
"""Clusters that are started; a running one is named by its address or its scheduler file."""
ADDRESSES = ("tcp://", "tls://", "file:")
PREFIX = "IKMAP_CLUSTER_"
"""Environment variables that set an option: ``IKMAP_CLUSTER_QUEUE`` is ``queue``."""
REMOTE = ("slurm", "srun", "kubernetes")
MEMORY = "4GB"
"""Memory of each worker of a remote cluster if no setting gives it: nobody knows here what a node has free."""

_SIZE = re.compile(r"\d+(\.\d+)?\s*([kMGT]i?)?B", re.IGNORECASE)
_WALLTIME = re.compile(r"\d+(:\d\d){0,2}|\d+-\d+(:\d\d){0,2}")
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_SEPARATOR = ";"  # between the items of a list in an environment variable


@dataclass(frozen=True)
class Setting:
    """One option of some kinds of cluster.

    ``check`` takes the text and returns the value, or raises ``ValueError("expected ...")``; a ``repeated`` one
    may be given several times, and its value is the tuple of all.
    """

    name: str
    kinds: tuple[str, ...]
    check: Callable[[str], Any]
    metavar: str
    help: str
    repeated: bool = False


def _text(value: str) -> str:
    if not value.strip() or any(ord(letter) < 32 for letter in value):
        raise ValueError("expected one line of text")
    return value


def _word(value: str) -> str:
    if not re.fullmatch(r"[\w.,:@/+=-]+", value):
        raise ValueError("expected letters, digits and .,:@/+=-_")
    return value


def _label(value: str) -> str:
    if len(value) > 63 or not _NAME.fullmatch(value):
        raise ValueError("expected a Kubernetes name: lower case letters, digits and -")
    return value


def _size(value: str) -> str:
    if not _SIZE.fullmatch(value):
        raise ValueError("expected a size such as 10GB")
    return value


def _walltime(value: str) -> str:
    if not _WALLTIME.fullmatch(value):
        raise ValueError("expected a time of Slurm's, such as 04:00:00 or 2-12:00:00")
    return value


def _whole(low: int, high: int | None = None) -> Callable[[str], int]:
    def check(value: str) -> int:
        if not value.isascii() or not value.isdigit() or int(value) < low or (high is not None and int(value) > high):
            raise ValueError(f"expected an integer >= {low}" + (f" and <= {high}" if high is not None else ""))
        return int(value)

    return check


def _address(value: str) -> str:
    host, colon, port = value.rpartition(":")
    if not colon or not port.isdigit() or int(port) > 65535 or not re.fullmatch(r"[\w.-]*|\[[0-9a-fA-F:]+\]", host):
        raise ValueError("expected HOST:PORT, such as 127.0.0.1:8787")
    return value


_RUNNING = ("address",)
_SCHEDULER_HERE = ("slurm", "srun")

SETTINGS = {
    setting.name: setting
    for setting in (
        Setting("minimum", ("slurm", "kubernetes"), _whole(1), "N", "workers that are always asked for (adaptive)"),
        Setting(
            "maximum",
            ("slurm", "kubernetes", *_RUNNING),
            _whole(1),
            "N",
            "most workers that are asked for, or come to a running cluster (adaptive)",
        ),
        Setting("queue", ("slurm",), _word, "NAME", "partition of the worker jobs"),
        Setting("account", ("slurm",), _word, "NAME", "account that the worker jobs are charged to"),
        Setting("walltime", ("slurm",), _walltime, "TIME", "limit of each worker job (default: 01:00:00)"),
        Setting("cores", ("slurm",), _whole(1), "N", "cores of each worker job, one worker on each (default: 1)"),
        Setting(
            "gpus",
            ("slurm", "srun", "kubernetes"),
            _whole(1),
            "N",
            "GPUs of each worker job, node or pod; one worker on each",
        ),
        Setting("directive", ("slurm",), _text, "LINE", "a further #SBATCH line, such as --constraint=avx2", True),
        Setting("prologue", ("slurm",), _text, "LINE", "shell line before a worker, such as module load", True),
        Setting("logs", ("slurm",), _text, "DIR", "folder of the worker jobs' output (default: slurm-logs)"),
        Setting("interface", _SCHEDULER_HERE, _word, "NAME", "network interface, such as ib0 (default: by route)"),
        Setting("port", _SCHEDULER_HERE, _whole(1, 65535), "N", "port of the scheduler (default: a free one)"),
        Setting("shared", _SCHEDULER_HERE, _text, "DIR", "folder that all nodes see (default: the home directory)"),
        Setting("image", ("kubernetes",), _word, "NAME", "container image with this software in it (required)"),
        Setting("namespace", ("kubernetes",), _label, "NAME", "namespace (default: that of the current context)"),
        Setting("claim", ("kubernetes",), _label, "NAME", "volume claim mounted at /runs in every pod"),
        Setting("rmm_pool", ("cuda", *REMOTE), _size, "SIZE", "GPU memory taken at the start (default: as needed)"),
        Setting("device_memory_limit", ("cuda",), _size, "SIZE", "GPU memory beyond which it uses the machine's"),
        Setting(
            "tls",
            (*KINDS, *_RUNNING),
            _text,
            "DIR|off",
            "folder with ca.crt, tls.crt and tls.key (default: temporary ones; for a running cluster, Dask's own)",
        ),
        Setting(
            "dashboard",
            ("local", "cuda", *_SCHEDULER_HERE),
            _address,
            "HOST:PORT",
            "where the dashboard listens (default: 127.0.0.1 and a free port)",
        ),
        Setting(
            "wait",
            (*REMOTE, *_RUNNING),
            _whole(1),
            "SECONDS",
            "how long a run goes without any worker, at its start or later, before it ends "
            "(default: with an address 10, later 60, else 3600); give 86400 where queues are long",
        ),
    )
}  # fmt: skip


def family(name: str) -> str:
    """The kind of cluster that ``--cluster name`` is: one of `KINDS`, or ``address``."""
    return "address" if name.startswith(ADDRESSES) else name


def check(name: str, given: Iterable[str]) -> dict[str, Any]:
    """The values of ``KEY=VALUE`` words for the cluster ``name``.

    Raises
    ------
    InputError
        For an unknown key, one that this kind of cluster does not have, one given twice, or a bad value.
    """
    values: dict[str, Any] = {}
    for word in given:
        key, _, text = word.partition("=")
        key = key.strip().replace("-", "_")
        setting = _find(key, f"--cluster-option {word}")
        if family(name) not in setting.kinds:
            kinds = ", ".join(setting.kinds).replace("address", "an address")
            raise InputError(f"--cluster-option {word}: found --cluster {name}, expected {kinds}")
        _put(values, setting, text, f"--cluster-option {word}")
    _check_together(values, "--cluster-option")
    return values


def resolve(
    name: str, given: Iterable[str], environ: Mapping[str, str] = os.environ, *, workers: int | None = None
) -> dict[str, Any]:
    """`check`, over what the environment says: defaults of a site, so what other kinds of cluster have is ignored.

    A number of ``workers`` wins over the bounds that a site sets.

    Raises
    ------
    InputError
    """
    site: dict[str, Any] = {}
    for variable, text in sorted(environ.items()):
        if not variable.startswith(PREFIX):
            continue
        setting = _find(variable.removeprefix(PREFIX).lower(), variable)
        if family(name) in setting.kinds:
            for item in text.split(_SEPARATOR) if setting.repeated else [text]:
                _put(site, setting, item.strip(), variable)
    own = check(name, given)
    if workers is not None and "maximum" not in own:
        site = {key: value for key, value in site.items() if key not in ("minimum", "maximum")}
    values = {**site, **own}
    if "rmm_pool" in own and "gpus" not in values and name != "cuda":
        word = f"--cluster-option rmm_pool={own['rmm_pool']}"
        raise InputError(f"{word}: found no gpus, expected both: type --cluster-option gpus=N beside it")
    _check_together(values, PREFIX + "* and --cluster-option")
    return values


def _find(key: str, where: str) -> Setting:
    if key not in SETTINGS:
        near = get_close_matches(key, SETTINGS, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(SETTINGS)}"
        raise InputError(f"{where}: unknown option {key!r}; {hint}")
    return SETTINGS[key]


def _put(values: dict[str, Any], setting: Setting, text: str, where: str) -> None:
    try:
        value = setting.check(text)
    except ValueError as error:
        raise InputError(f"{where}: {setting.name}: found {text!r}, {error}") from None
    if setting.repeated:
        values[setting.name] = (*values.get(setting.name, ()), value)
    elif setting.name in values:
        raise InputError(f"{where}: {setting.name}: given twice")
    else:
        values[setting.name] = value


def _check_together(values: Mapping[str, Any], where: str) -> None:
    low, high = values.get("minimum"), values.get("maximum")
    if low is not None and high is None:
        raise InputError(f"{where}: found minimum={low} without maximum, expected both or only maximum")
    if low is not None and high is not None and low > high:
        raise InputError(f"{where}: found minimum={low} and maximum={high}, expected minimum <= maximum")
    if "gpus" in values and "cores" in values and values["cores"] < values["gpus"]:
        raise InputError(
            f"{where}: found cores={values['cores']} and gpus={values['gpus']}, expected a core for each GPU"
        )


def scale(name: str, workers: int | None, values: Mapping[str, Any]) -> tuple[int, int]:
    """Fewest and most workers that a cluster of this kind is asked for.

    Raises
    ------
    InputError
        If neither ``--workers`` nor ``maximum`` says so, or both do.
    """
    maximum = values.get("maximum")
    if workers is None and maximum is None:
        raise InputError(f"--workers: required with --cluster {name}, or --cluster-option maximum=N")
    if workers is not None and maximum is not None:
        raise InputError(f"--workers {workers} and maximum={maximum}: found both, expected one of them")
    if workers is not None:
        return workers, workers
    assert maximum is not None
    return int(values.get("minimum", 1)), int(maximum)
