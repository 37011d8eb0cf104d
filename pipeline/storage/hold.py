"""A directory that one process works in at a time."""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from pipeline.errors import InputError

LOCK = ".lock"


class Taken(InputError):
    """An error for a directory that was to be new and exists, perhaps because another process has just made it."""


class Hold:
    """A directory that other processes are kept out of until it is closed.

    Parameters
    ----------
    path : Path
        A new directory gets mode 0700, as rows will be stored in it; an existing one keeps its mode.
    new : bool
        Whether the directory must not exist yet.

    Raises
    ------
    InputError
        Another process holds it, or it cannot be written.
    Taken
        It was to be new and exists.
    """

    def __init__(self, path: Path, *, new: bool = False) -> None:
        self.path = path
        self._made = [folder for folder in (path, *path.parents) if not folder.exists()]
        self._lock_made = not (path / LOCK).exists()
        try:
            self._lock = _locked(path, new=new)
        except Taken:  # the directory is of another process, also if there was none a moment ago
            raise
        except BaseException:
            self._remove_folders()
            raise

    def undo(self) -> None:
        """Remove the lock file and the directories that this object made, as far as they are empty.

        Let go of the directory.
        """
        if self._lock_made and not self._lock.closed:
            with suppress(OSError):
                (self.path / LOCK).unlink(missing_ok=True)
        self.close()
        self._remove_folders()

    def _remove_folders(self) -> None:
        with suppress(OSError):  # another process has put something there
            for folder in self._made:
                folder.rmdir()

    def close(self) -> None:
        """Let other processes have the directory."""
        self._lock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _locked(path: Path, *, new: bool) -> IO[str]:
    """Open and lock the lock file of a directory; make the directory if it does not exist, or if it is to be new."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=not new)
        lock = open(path / LOCK, "a")  # noqa: SIM115 - held until closed
    except (FileExistsError, NotADirectoryError):
        if new and os.path.lexists(path):
            raise Taken(f"{path}: is there already, expected a new directory") from None
        raise InputError(f"{path}: found a file, expected a directory for the run") from None
    except OSError as error:
        raise InputError(f"{path}: cannot write the run directory: {error.strerror}") from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # A process that was refused may have removed the lock file between our open and our lock: then we hold a file
        # that nobody else can see.
        if not os.path.samestat(os.fstat(lock.fileno()), os.stat(path / LOCK)):
            raise BlockingIOError
    except (BlockingIOError, FileNotFoundError):
        lock.close()
        raise InputError(f"{path}: another process is working on this run") from None
    except OSError as error:
        lock.close()
        raise InputError(
            f"{path}: this file system cannot lock files ({error.strerror}), so two processes could write there "
            "at once; give a --run-dir on another one, or have it mounted with locks (Lustre: -o flock)"
        ) from None
    return lock
