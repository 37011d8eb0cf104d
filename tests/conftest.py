"""Fixtures and settings of all tests."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

# Another file of tests, or another user, has the processors for as long as it takes: no example is too slow.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The directory of the real data sets; without one, the test is skipped."""
    named = os.environ.get("IKMAP_DATA_DIR")
    if not named:
        pytest.skip("needs the real data sets: IKMAP_DATA_DIR is not set")
    if not Path(named).is_dir():
        pytest.skip(f"needs the real data sets: IKMAP_DATA_DIR={named} is no directory")
    return Path(named)


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
