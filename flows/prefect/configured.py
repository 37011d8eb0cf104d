"""A look for a Prefect API, which imports Prefect only if there is one."""

from __future__ import annotations

import os
from pathlib import Path


def api_is_configured() -> bool:
    """Return whether PREFECT_API_URL is set, or the active profile sets it."""
    if os.environ.get("PREFECT_API_URL"):
        return True
    home = Path(os.environ.get("PREFECT_HOME") or Path.home() / ".prefect")
    profiles = Path(os.environ.get("PREFECT_PROFILES_PATH") or home / "profiles.toml")
    if not profiles.exists():
        return False
    from prefect.settings import get_current_settings

    return bool(get_current_settings().api.url)
