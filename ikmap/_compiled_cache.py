"""The cache of compiled loops on the disk: one file for each loop and signature, found by what it was made from.

Numba's own cache knows a loop by the path of its file and by that file's contents alone: another checkout compiles
anew, a changed helper in another file goes unnoticed, and two processes that compile two signatures of one loop at the
same time can exchange them. Here the name of a file is a digest of all that decides its contents: the module of the
loop with the modules of ours that it imports, the signature, the flags, the versions of Numba and llvmlite, Python,
and the processor. So checkouts and hosts may share a folder, and nobody ever writes what another one reads: a file is
put in place whole, and what it should hold is checked before it is unpickled.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import re
import stat
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Protocol

import llvmlite
import numba
from numba import types
from numba.core import config, sigutils
from numba.core.caching import _Cache
from numba.core.compiler import CompileResult
from numba.core.serialize import dumps
from numba.core.typing import Signature


class Codegen(Protocol):
    """Numba's code generator for a processor."""

    def magic_tuple(self) -> tuple[object, ...]: ...


class Target(Protocol):
    """Numba's target of compilation."""

    def refresh(self) -> None: ...

    def codegen(self) -> Codegen: ...


class Compiled(Protocol):
    """Numba's result of compiling one signature."""

    lifted: Sequence[object]
    codegen: Codegen

    @property
    def library(self) -> Library: ...

    def _reduce(self) -> tuple[object, ...]: ...


class Library(Protocol):
    """Numba's compiled code."""

    has_dynamic_globals: bool


type SignatureLike = tuple[types.Type, ...] | Signature
"""Types of arguments, as Numba gives them."""
FORGOTTEN_DAYS = 60
"""Files that nobody has loaded for so long are removed when something new is stored."""
_DAY = 86400.0
_SUFFIX = ".compiled"
_DIGEST = hashlib.sha256().digest_size


class CompiledCache(_Cache):
    """The place in the cache of one loop; a dispatcher of Numba's asks it for compiled code, and gives it what is new.

    Parameters
    ----------
    function : callable
        What is compiled.
    flags : mapping
        Options of :func:`numba.njit`.
    """

    def __init__(self, function: Callable[..., object], flags: Mapping[str, object]) -> None:
        self._name = f"{function.__module__}.{function.__qualname__}"
        # Read now, not when something is compiled: a file that is edited meanwhile is not what was imported.
        self._made_of = repr((self._name, sorted(flags.items(), key=str), _sources(function.__module__), _VERSIONS))
        self._enabled = True

    @property
    def cache_path(self) -> str:
        """The folder."""
        return str(folder())

    def holds(self, signature: SignatureLike, target: Target) -> bool:
        """Return whether there is a file for this signature and processor; it may turn out to be damaged."""
        return self._enabled and readable() and self._path(signature, target.codegen()).exists()

    def load_overload(self, sig: SignatureLike, target_context: Target) -> CompileResult | None:
        """Called by Numba: compiled code, None if there is none that is whole."""
        target_context.refresh()
        if not self._enabled or not readable():
            return None
        path = self._path(sig, target_context.codegen())
        try:
            stored = path.read_bytes()
        except OSError:
            return None
        digest, contents = stored[:_DIGEST], stored[_DIGEST:]
        if hashlib.sha256(contents).digest() != digest:
            return None
        with suppress(OSError):
            if path.stat().st_mtime < time.time() - _DAY:
                os.utime(path)
        result: CompileResult = CompileResult._rebuild(target_context, *pickle.loads(contents))
        return result

    def save_overload(self, sig: SignatureLike, data: Compiled) -> None:
        """Called by Numba: store what has just been compiled, if that can be stored."""
        if not self._enabled or not writable() or data.lifted or data.library.has_dynamic_globals:
            return
        contents = dumps(data._reduce())
        path = self._path(sig, data.codegen)
        with suppress(OSError):  # a full disk, say: then it is compiled again next time
            handle, attempt = tempfile.mkstemp(prefix=".", suffix=_SUFFIX, dir=path.parent)
            try:
                with os.fdopen(handle, "wb") as stream:
                    stream.write(hashlib.sha256(contents).digest() + contents)
                os.replace(attempt, path)
            except OSError:
                os.unlink(attempt)
                raise
        _forget_old()

    def enable(self) -> None:
        """Use the cache, as from the start."""
        self._enabled = True

    def disable(self) -> None:
        """Load and store nothing."""
        self._enabled = False

    def flush(self) -> None:
        """Remove what is stored of this loop, for any processor."""
        with suppress(OSError):
            for path in folder().glob(f"{self._name}-*{_SUFFIX}"):
                path.unlink()

    def _path(self, signature: SignatureLike, codegen: Codegen) -> Path:
        args = sigutils.normalize_signature(signature)[0]
        key = repr((self._made_of, [getattr(config, name) for name in _SETTINGS], str(args), codegen.magic_tuple()))
        return folder() / f"{self._name}-{hashlib.sha256(key.encode()).hexdigest()[:32]}{_SUFFIX}"


_SETTINGS = ("OPT", "BOUNDSCHECK", "DEBUGINFO_DEFAULT", "LOOP_VECTORIZE", "SLP_VECTORIZE", "CPU_FEATURES")
"""Settings of Numba that change the code that it makes."""
_VERSIONS = (numba.__version__, llvmlite.__version__, sys.version_info[:3], sys.implementation.name)


def folder() -> Path:
    """Return the folder of compiled loops: in NUMBA_CACHE_DIR if that is set, else in the cache of the user."""
    if named := os.environ.get("NUMBA_CACHE_DIR"):
        return Path(named).absolute() / "ikmap"
    cache_home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache_home) / "ikmap" / "compiled"


def readable() -> bool:
    """Return whether the folder is there, and nobody else could have put anything into it: its files are pickles."""
    return _state(str(folder()))[0]


def writable() -> bool:
    """Return whether compiled loops can be stored."""
    return _state(str(folder()))[1]


@cache
def _state(path: str) -> tuple[bool, bool]:
    with suppress(OSError):
        os.makedirs(path, mode=0o700, exist_ok=True)
    try:
        found = os.stat(path)
    except OSError:
        return False, False
    ours = found.st_uid in (os.geteuid(), 0) and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    try:
        tempfile.TemporaryFile(dir=path).close()
    except OSError:
        return ours, False
    return ours, ours


@cache
def _sources(module: str) -> str:
    """Digest of the source of a module and of all of the same packages that it imports, directly or not."""
    digest = hashlib.sha256()
    for name in sorted(_with_imports(module)):
        digest.update(f"{name}\0".encode() + _source(name) + b"\0")
    return digest.hexdigest()


def _with_imports(module: str) -> set[str]:
    found, waiting = set(), [module]
    while waiting:
        name = waiting.pop()
        # What declares and stores loops is no part of them.
        if name not in found and name != "ikmap.compiled":
            found.add(name)
            waiting += _imports(name)
    return found


@cache
def _imports(module: str) -> frozenset[str]:
    """Modules of our packages that a module imports."""
    names = imported_names(_source(module).decode(errors="replace"))
    ours = {name for name in names if name.partition(".")[0] in ("ikmap", module.partition(".")[0])}
    return frozenset(name for name in ours if _file_of(name))


_IMPORT = re.compile(
    r"(?:^|[;:])[ \t]*(?:from[ \t]+([\w.]+)[ \t]+import[ \t]*(\((?:[^)#]|#.*)*\)|[^\n#;]+)|import[ \t]+([^\n#;]+))",
    re.MULTILINE,
)
_COMMENT = re.compile(r"#.*")


def imported_names(source: str) -> set[str]:
    """Return the modules that a source imports, and the names that it imports from them, after the module and a dot.

    Every process reads fifty sources as it starts, and Python's own parser takes twenty times as long. A line of a
    docstring that looks like an import counts as one: then one source more decides the name of the file.
    """
    names: set[str] = set()
    for module, members, modules in _IMPORT.findall(source.replace("\\\n", " ")):
        words = [
            part.split()[0] for part in _COMMENT.sub("", members or modules).strip("() \t").split(",") if part.strip()
        ]
        names |= {module, *(f"{module}.{word}" for word in words)} if module else set(words)
    return names


@cache
def _file_of(module: str) -> str | None:
    """The file of a module; None for a name that is none, as of a function in one."""
    if module in sys.modules:
        return getattr(sys.modules[module], "__file__", None)
    try:
        found = find_spec(module)
    except (ModuleNotFoundError, ValueError):
        return None
    return found.origin if found and found.has_location else None


@cache
def _source(module: str) -> bytes:
    file = _file_of(module)
    return Path(file).read_bytes() if file else b""


@cache  # once for each process
def _forget_old() -> None:
    with suppress(OSError):
        for path in folder().glob(f"*{_SUFFIX}"):
            if path.stat().st_mtime < time.time() - FORGOTTEN_DAYS * _DAY:
                path.unlink()
