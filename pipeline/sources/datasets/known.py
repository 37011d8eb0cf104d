"""The data sets that are known by name, and where their files are; nothing is opened or downloaded here.

All of it is data (``datasets.toml``, where the keys are explained); users add their own files of the same form. Only
the standard library is needed, so that an unknown name and a missing file are said at once.
"""

from __future__ import annotations

import difflib
import os
import sys
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import resources
from importlib.util import find_spec
from pathlib import Path

from pipeline.errors import InputError
from pipeline.monitoring.plain_text import not_utf8
from pipeline.record_types import Record
from pipeline.sources.datasets.spec import DatasetSpec, Files, name_here, parse_spec
from pipeline.sources.files.compression import ENDINGS, without_ending
from pipeline.urls import Location

#: Used when the user names neither a data set nor an input: it ships inside a dependency.
EMBEDDED = "digits"


@dataclass(frozen=True)
class Registry:
    """The data sets by name, built-in ones first."""

    specs: Mapping[str, DatasetSpec]

    def __iter__(self) -> Iterator[DatasetSpec]:
        return iter(self.specs.values())

    def __contains__(self, name: str) -> bool:
        return any(name.lower() in (known.lower() for known in (spec.name, *spec.aliases)) for spec in self)

    def find(self, name: str) -> DatasetSpec:
        """Return the data set called `name`, or with that alias; upper and lower case do not matter.

        Raises
        ------
        InputError
            There is none; the nearest names are suggested.
        """
        known = {alias.lower(): spec for spec in self for alias in (spec.name, *spec.aliases)}
        if spec := known.get(name.lower()):
            return spec
        near = difflib.get_close_matches(name.lower(), known, n=6, cutoff=0.6)
        nearest: dict[str, str] = {}
        for alias in near:
            own = known[alias].name
            nearest.setdefault(own, own if alias == own.lower() else f"{alias} ({own})")
        hint = f"did you mean {' or '.join([*nearest.values()][:3])}?" if nearest else f"known: {', '.join(self.specs)}"
        raise InputError(f"unknown data set '{name}': {hint}")


def default_data_dir() -> Path:
    """Return where data sets live: IKMAP_DATA_DIR, else `ikmap` in the user's cache directory."""
    if chosen := os.environ.get("IKMAP_DATA_DIR"):
        if "://" in Location(chosen):
            raise InputError("IKMAP_DATA_DIR: found an address, expected a path of this machine")
        return Path(chosen).expanduser()
    if cache := os.environ.get("XDG_CACHE_HOME"):
        return Path(cache) / "ikmap"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "ikmap"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home()) / "ikmap"
    return Path.home() / ".cache" / "ikmap"


def load_registry(extra: Path | None = None, data_dir: Path | None = None) -> Registry:
    """Read the built-in data sets and the user's.

    Parameters
    ----------
    extra : Path, optional
        TOML file of the user (``--dataset-file``).
    data_dir : Path, optional
        Its ``*.toml`` files are read too, where they define data sets.

    Raises
    ------
    InputError
        A file cannot be read, is not TOML, has an unknown or ill-typed key, or a name that is taken.
    """
    with resources.as_file(resources.files("pipeline.sources.datasets") / "datasets.toml") as path:
        sources: list[tuple[Path, Path | None]] = [(path, None)]
        if extra is not None:
            sources.append((extra, extra.parent))
        for found in sorted(data_dir.glob("*.toml")) if data_dir else []:
            if extra is None or found.resolve() != extra.resolve():
                sources.append((found, found.parent))

        specs: dict[str, DatasetSpec] = {}
        owners: dict[str, tuple[Path, str]] = {}
        for path, folder in sources:
            tables = _read_toml(path).get("dataset")
            if tables is None and path != extra:
                continue  # some other TOML file that happens to lie in the data directory
            if not isinstance(tables, dict):
                raise InputError(f"{path}: found no data set, expected a table [dataset.NAME]")
            for name, table in tables.items():
                spec = parse_spec(path, folder, name, table)
                for alias in (name, *spec.aliases):
                    owner = owners.setdefault(alias.lower(), (path, name))
                    if owner != (path, name):
                        raise InputError(
                            f"{path}: data set '{name}': {alias} is taken by {owner[1]} of {owner[0].name}"
                        )
                specs[name] = spec
    return Registry(specs)


def missing_files(spec: DatasetSpec, data_dir: Path) -> list[Location]:
    """Names of the files of a data set that :func:`resolve` would have to download."""
    return files_of(spec, data_dir)[1]


def refuse_lacking(spec: DatasetSpec, data_dir: Path) -> None:
    """Refuse a data set with files that are neither there nor to be downloaded.

    Raises
    ------
    InputError
    """
    files, missing = files_of(spec, data_dir)
    if lacking := [name for name in missing if not files.addresses(name)]:
        folders = data_dir if spec.folder in (None, data_dir) else f"{spec.folder} or {data_dir}"
        raise InputError(
            f"{spec.name}: {' and '.join(lacking)} (or with {', '.join(ENDINGS)}) not found in {folders}, "
            "and no address to download from is known: put it there, or name its directory with --data-dir"
        )


def files_of(spec: DatasetSpec, data_dir: Path) -> tuple[Files, list[Location]]:
    """The files of a data set, and the names of those that are not there."""
    if spec.package is not None:
        files = Files(train=_packaged(spec), divide=spec.divide)
    else:
        # The variant of which most is there; the first of them where several are.
        files = min(spec.files, key=lambda files: sum(local_file(n, spec, data_dir) is None for n in files.names))
    return files, [name for name in files.names if local_file(name, spec, data_dir) is None]


def _packaged(spec: DatasetSpec) -> Location:
    """Path of a file that ships inside an installed package."""
    assert spec.package is not None
    assert spec.resource is not None
    try:
        package = find_spec(spec.package)  # does not import it, which may take seconds
    except ModuleNotFoundError:  # nor is there what it would be a part of
        package = None
    if package is None or package.origin is None:
        raise InputError(f"{spec.name}: comes with the Python package {spec.package}, not installed here")
    path = Path(package.origin).parent / spec.resource
    if not path.is_file():
        raise InputError(f"{path}: no such file, expected it inside the Python package {spec.package}")
    return Location(path)


def local_file(place: Location, spec: DatasetSpec, data_dir: Path) -> Location | None:
    """Path of the file if it exists. An address of another kind is returned unchecked."""
    if not (place.is_local or place.is_web):
        return place
    name = name_here(place)
    stem = without_ending(name)
    names = dict.fromkeys((stem, *(stem + ending for ending in ENDINGS), name))
    for folder in (spec.folder, data_dir):
        for file_name in names if folder else ():
            path = os.path.join(folder or "", file_name)
            if os.path.isfile(path):
                return Location(os.path.abspath(path))
    return None


def _read_toml(path: Path) -> Record:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{path}: cannot read the data set file ({error.strerror})") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: {not_utf8('TOML')}") from error
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{path}: not a TOML file: {error}") from error
