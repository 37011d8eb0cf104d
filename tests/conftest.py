"""Fixtures and settings of all tests."""

from __future__ import annotations

import gc
import os
import tempfile
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
import scipy.linalg  # noqa: F401 - it loads a BLAS of its own
from hypothesis import HealthCheck, settings
from threadpoolctl import threadpool_limits

from cluster import ClusterHandle, connect
from tests.support.sizes import SmallSizes

# What other packages that are installed here offer is not ours to test; tests of such packages take this back.
os.environ["IKMAP_PACKAGES"] = "off"

# Temporary files of tests, and of the processes that they start, lie where those of pytest do: `make test` gives a file
# system in memory, which waits for no disk.
if temporary := os.environ.get("PYTEST_DEBUG_TEMPROOT"):
    tempfile.tempdir = os.environ["TMPDIR"] = temporary

# Another file of tests, or another user, has the processors for as long as it takes: no example is too slow.
settings.register_profile("patient", max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")

TESTS = Path(__file__).parent

LONGEST = (
    "services/prefect_deployments", "services/slurm", "system/batch", "ikmap/partitioners/voronoi",
    "pipeline/stages/select", "pipeline/streams/streams", "ikmap_papers/isolation_kernel/runs", "services/prefect",
    "pipeline/training/dual", "pipeline/storage/storage_durability", "pipeline/running/compiling", "services/two_hosts",
    "pipeline/training/on_rows", "system/plugin", "plugins/stream", "services/second_user",
    "ikmap/estimators/estimators_scikit_learn", "pipeline/training/sums_boosting", "pipeline/training/peers",
    "pipeline/stages/choose", "benchmarks/tables", "pipeline/reproduce/registry", "ikmap/device",
    "pipeline/stages/stages", "system/monitoring", "nets/models",
    "pipeline/running/warm", "benchmarks/benchmarks", "plugins/format", "pipeline/runs/plan",
    "pipeline/running/running_full_disk", "pipeline/streams/intake", "ikmap/compiled", "system/pinned",
    "pipeline/monitoring/plain_text", "flows/prefect_offline", "benchmarks/online", "pipeline/streams/label_file",
    "pipeline/sources/sources_types", "cluster/local", "pipeline/sources/sources_table_runs",
    "pipeline/rows/fitted_split", "system/score", "pipeline/stages/calibrate", "ikmap_papers/gmm/gmm",
    "ikmap/learners/kernel/working_set", "benchmarks/frontier", "pipeline/storage/storage_flips", "plugins/weighted",
    "system/norma_killed", "benchmarks/runs",
)  # fmt: skip
"""Files of tests, without their "test_", in the order in which `make test` gives them out.

Long ones come first, so that none is left alone at the end; beside those that mostly wait, for servers and for other
processes, come some that compute. What the waiting ones run has been compiled by `make venv`. All other files follow,
those with the most tests first: the loops that these compile, the pipelines load.
"""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the tests in that order, file by file; tests of a file stay in theirs."""
    place = {name: k for k, name in enumerate(LONGEST)}
    tests = Counter(item.path for item in items)

    def key(path: Path) -> tuple[int, int, str]:
        name = _name(path)
        return place.get(name, len(place)), -tests[path], str(path)

    # Once for each file: there are forty times as many tests.
    keys = {path: key(path) for path in tests}
    system = {path for path in tests if {"system", "services"} & {*path.relative_to(TESTS).parts}}
    items.sort(key=lambda item: keys[item.path])
    for item in items:
        if item.path in system:
            item.add_marker("system")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Nothing of what is made as tests are collected becomes garbage: none is looked for, nor later among all that."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def _name(path: Path) -> str:
    return (path.parent.relative_to(TESTS) / path.stem.removeprefix("test_")).as_posix()


@pytest.fixture(scope="session", autouse=True)
def no_dask_report() -> Iterator[None]:
    """Runs in this process leave out Dask's own report, which takes longer to draw than a small run takes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pipeline.runs.metrics.performance_report", lambda **_: nullcontext())
        yield


@pytest.fixture(scope="session", autouse=True)
def one_file_at_a_time() -> Iterator[None]:
    """Files are flushed one after the other: in memory none takes time, and to start eight threads does."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pipeline.storage.durable.AT_ONCE", 1)
        yield


@pytest.fixture(scope="session", autouse=True)
def one_blas_thread() -> None:
    """Products of matrices are computed on one thread, where a second one only waits for a core that others have."""
    # On a thread that ends: threadpoolctl would let nobody else change the number while the thread lives that did.
    with ThreadPoolExecutor(1) as pool:
        pool.submit(threadpool_limits, limits=1, user_api="blas").result()


@pytest.fixture
def small_sizes(monkeypatch: pytest.MonkeyPatch) -> SmallSizes:
    """Sizes of blocks, chunks and pieces, which the test may make small."""
    return SmallSizes(monkeypatch)


@pytest.fixture(scope="module")
def two_workers() -> Iterator[ClusterHandle]:
    """A cluster for the tests of a file. No longer: its threads would be counted where others measure memory."""
    with connect("local", workers=2, memory_limit="2GB") as cluster:
        yield cluster


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The directory of the real data sets; without one, the test is skipped."""
    named = os.environ.get("IKMAP_DATA_DIR")
    if not named:
        pytest.skip("needs the real data sets: IKMAP_DATA_DIR is not set")
    if not Path(named).is_dir():
        pytest.skip(f"needs the real data sets: IKMAP_DATA_DIR={named} is no directory")
    return Path(named)


@pytest.fixture(scope="session")
def kept(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Return the folder of a name for what takes long to make: it is there for later sessions, too.

    Without pytest's cache, it is one of this session.
    """
    cache: pytest.Cache | None = getattr(request.config, "cache", None)
    return tmp_path_factory.mktemp if cache is None else cache.mkdir


@pytest.fixture(scope="module")
def prefect_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A home directory of Prefect's for tests, which asks nobody else; to be there before it is imported."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PREFECT_HOME", str(tmp_path_factory.mktemp("prefect")))
        for name, value in PREFECT_ALONE.items():
            patch.setenv(name, value)
        yield


PREFECT_ALONE = {
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "PREFECT_SERVER_UI_V2_ENABLED": "false",
    "DO_NOT_TRACK": "1",
    # Tests read what runs have logged: two seconds go by before Prefect sends it, unless told otherwise.
    "PREFECT_LOGGING_TO_API_BATCH_INTERVAL": "0.1",
    # Nothing is scheduled here, nothing is late, and no event starts anything; what a server does for these takes
    # processor time.
    **{
        f"PREFECT_SERVER_SERVICES_{service}_ENABLED": "false"
        for service in (
            "CANCELLATION_CLEANUP",
            "EVENT_PERSISTER",
            "FOREMAN",
            "LATE_RUNS",
            "PAUSE_EXPIRATIONS",
            "SCHEDULER",
            "TRIGGERS",
        )
    },
}


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file that is quickly learned."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 2))
    lines = [f"{int(a + b > 0)} 1:{a} 2:{b}" for a, b in X]
    path = tmp_path_factory.mktemp("small") / "small.libsvm"
    path.write_text("\n".join(lines) + "\n")
    return path
