"""The machine and the libraries that a measurement was made with, and the ceilings of that machine."""

from __future__ import annotations

import platform
import time
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from benchmarks.records import commit
from pipeline.running.machine import describe_machine

PACKAGES = (
    "numpy", "scipy", "numba", "scikit-learn", "ikpykit", "liblinear-official", "liblinear-multicore", "svmloader",
    "lightgbm", "xgboost-cpu", "catboost", "datasketch",
)  # fmt: skip


def machine(threads: int, unset: list[str]) -> dict[str, Any]:
    """Processor, caches, memory, versions, the BLAS kernel that runs, and what the command changed."""
    import numpy  # noqa: F401 - loads its BLAS, which is then found
    from threadpoolctl import threadpool_info

    return {
        **describe_machine(),
        "threads": threads,
        "caches": _caches(),
        "versions": {"python": platform.python_version(), **_versions()},
        "blas": [
            {key: library.get(key) for key in ("internal_api", "version", "architecture", "num_threads")}
            for library in threadpool_info()
            if library["user_api"] == "blas"
        ],
        "unset": unset,
        "date": time.strftime("%Y-%m-%d"),
        "commit": commit(),
    }


def describe(found: dict[str, Any]) -> str:
    """One paragraph for people."""
    blas = ", ".join(f"{b['internal_api']} {b['version']} (kernel {b['architecture']})" for b in found["blas"])
    caches = ", ".join(f"{name} {size}" for name, size in found["caches"].items())
    versions = ", ".join(f"{name} {number}" for name, number in found["versions"].items())
    unset = f" Unset by the command: {', '.join(found['unset'])}." if found["unset"] else ""
    return (
        f"{found['processor']}, {found['cores']} cores of which {found['threads']} are used, "
        f"{caches or 'caches unknown'}, "
        f"{found['memory_bytes'] / 2**30:.0f} GiB; {found['system']}; {blas or 'no BLAS found'}; {versions}; "
        f"{found['date']}.{unset}"
    )


def _caches() -> dict[str, str]:
    """Data and unified caches of the first core, by level."""
    found = {}
    for folder in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        try:
            level, kind, size = ((folder / name).read_text().strip() for name in ("level", "type", "size"))
        except OSError:
            continue
        if kind != "Instruction":
            found[f"L{level}{'d' if kind == 'Data' else ''}"] = size
    return found


def _versions() -> dict[str, str]:
    found = {}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "missing"
    return found


def _best(work: Any, n: int = 3) -> float:
    seconds = []
    for _ in range(n):
        begin = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - begin)
    return min(seconds)


@cache
def product_rate() -> float:
    """Float32 multiply-adds per second of a matrix product, on all threads in use."""
    import numpy as np

    a, b = np.ones((2048, 512), np.float32), np.ones((512, 2048), np.float32)
    return 2048 * 512 * 2048 / _best(lambda: a @ b)


@cache
def gather_rate(entries: int) -> float:
    """Dependent-free gathers of float64 per second on one thread, from a table of this many entries."""
    import numba
    import numpy as np

    @numba.njit(fastmath=True)
    def gather(table: Any, places: Any) -> float:
        total = 0.0
        for i in range(places.size):
            total += table[places[i]]
        return total

    table = np.ones(entries)
    places = np.random.default_rng(0).integers(0, entries, 1 << 20).astype(np.uint32)
    gather(table, places[:10])
    return places.size / _best(lambda: gather(table, places))


@cache
def copy_rate() -> float:
    """Bytes per second that one thread reads and writes when it copies 128 MiB."""
    import numpy as np

    a = np.ones(1 << 24)
    b = np.empty_like(a)
    return 2 * a.nbytes / _best(lambda: np.copyto(b, a))
