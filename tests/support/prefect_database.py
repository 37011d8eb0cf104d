"""An empty database of a Prefect server, which takes seconds to make and none to copy, and authorities for clients."""

from __future__ import annotations

import importlib.metadata
import os
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path

import certifi

MADE: dict[str, Path] = {}
"""Where this process has found or made the database, by its name: without a cache, every file of tests has a folder."""


def empty_database(folder: Path) -> Path:
    """Return the database that this version of Prefect begins with, which is made where there is none yet."""
    name = f"prefect-{importlib.metadata.version('prefect')}.db"
    path = MADE.setdefault(name, folder / name)
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent) as own:
            made, whole = Path(own, "made.db"), Path(own, "whole.db")
            kept = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")}
            place = {"PREFECT_HOME": own, "PREFECT_SERVER_DATABASE_CONNECTION_URL": f"sqlite+aiosqlite:///{made}"}
            command = [sys.executable, "-m", "prefect", "server", "database", "upgrade", "--yes"]
            subprocess.run(command, env=kept | place, check=True, capture_output=True)
            connection = sqlite3.connect(made)
            connection.execute("VACUUM INTO ?", (str(whole),))  # with what SQLite has beside the file
            connection.close()
            whole.replace(path)
    return path


def one_authority(folder: Path) -> Path:
    """Write a file of one certificate authority, for clients that speak no TLS: each client reads the whole file."""
    end = "-----END CERTIFICATE-----\n"
    first, _, _ = Path(certifi.where()).read_text(encoding="utf-8").partition(end)
    path = folder / "authority.pem"
    path.write_text(first + end, encoding="utf-8")
    return path
