"""Fixtures and settings of all tests."""

from __future__ import annotations

import os
from pathlib import Path

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
