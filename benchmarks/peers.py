"""Peers, where they are installed. One that is not is named in the tables; nothing fails."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from importlib import import_module
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from types import ModuleType

#: Packages that would overwrite each other live in folders of their own, made by ``make bench``.
FOLDER = Path(sys.prefix) / "peers"


def find(module: str) -> ModuleType | None:
    """Import a module, or None when its package is not installed."""
    try:
        return import_module(module)
    except ImportError:
        return None


def find_program(variable: str) -> str | None:
    """The program that an environment variable names, or None where it is not set or names none."""
    return shutil.which(os.environ.get(variable, ""))


def find_liblinear(package: str) -> ModuleType | None:
    """Module `liblinearutil` of "liblinear-official" or "liblinear-multicore".

    Both install a package called liblinear, the later over the earlier. So each is looked for in a folder of its own
    first, and what is installed is taken only when the library on the disk is the one of the package asked for.
    """
    for home in (FOLDER / package / "liblinear", _installed(package)):
        if home is not None and (home / "liblinearutil.py").is_file():
            return _load(package.replace("-", "_"), home)
    return None


def _installed(package: str) -> Path | None:
    try:
        files = distribution(package).files or []
    except PackageNotFoundError:
        return None
    for file in files:
        path = Path(str(file.locate()))
        if file.name.startswith("clib") and path.is_file() and path.stat().st_size == file.size:
            return path.parent
    return None


def _load(name: str, home: Path) -> ModuleType:
    """Import the package under a name that is its own."""
    alias = f"benchmarks._{name}"
    if alias not in sys.modules:
        spec = importlib.util.spec_from_file_location(
            alias, home / "__init__.py", submodule_search_locations=[str(home)]
        )
        assert spec is not None
        assert spec.loader is not None
        sys.modules[alias] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[alias])
    return import_module(f"{alias}.liblinearutil")
