"""Whether a Prefect API is there to be used, found out without importing Prefect where it is not."""

from __future__ import annotations

import os
from pathlib import Path


def api_is_configured() -> bool:
    """Whether PREFECT_API_URL is set, or the active profile sets it."""
    if os.environ.get("PREFECT_API_URL"):
        return True
    home = Path(os.environ.get("PREFECT_HOME") or Path.home() / ".prefect")
    profiles = Path(os.environ.get("PREFECT_PROFILES_PATH") or home / "profiles.toml")
    if not profiles.exists():
        return False
    from prefect.settings import get_current_settings

    return bool(get_current_settings().api.url)
