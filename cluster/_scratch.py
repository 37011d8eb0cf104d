"""The folder in which Dask keeps its temporary files: one for each process, and none left of those that are dead."""

from __future__ import annotations

import fcntl
import os
import shutil
import socket
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

PREFIX = "ikmap-dask-"
LOCK = ".owner"
"""Locked by the process that made the folder, as long as it lives: the system unlocks it however the process ends.

Names the machine, for on a shared file system locks may hold on one machine only.
"""


@contextmanager
def scratch_folder(parent: Path | None = None) -> Iterator[str]:
    """Make a folder for this process and remove it in the end; remove those of processes that were killed.

    It lies in ``parent``, by default the system's folder for temporary files; nobody else may look into it.
    """
    parent = Path(tempfile.gettempdir()) if parent is None else parent
    remove_leftovers(parent)
    with tempfile.TemporaryDirectory(prefix=PREFIX, dir=parent, ignore_cleanup_errors=True) as folder:
        unlocked = Path(folder, f"{LOCK}.new")
        with open(unlocked, "w") as owner:
            owner.write(_this_machine())
            owner.flush()
            with suppress(OSError):  # a file system without locks: nobody removes a folder without one
                fcntl.flock(owner, fcntl.LOCK_EX)
                unlocked.rename(unlocked.with_name(LOCK))  # others see it locked or not at all
            yield folder


def folder_of_workers(parent: str) -> Path:
    """A folder in ``parent`` that this user's workers share, and that nobody else may look into or write to.

    Dask removes there what dead workers left, so it is always the same one; where somebody else has made one of that
    name, a new one is made.
    """
    folder = Path(parent, f"ikmap-workers-{os.geteuid()}")
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700, parents=True)
    status = folder.lstat()
    if stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid() and not status.st_mode & 0o077:
        return folder
    return Path(tempfile.mkdtemp(prefix=f"{folder.name}-", dir=parent))


def _this_machine() -> str:
    """Host, and the number that Linux gives to each start of a system."""
    boot = Path("/proc/sys/kernel/random/boot_id")
    return f"{socket.gethostname()} {boot.read_text().strip() if boot.exists() else ''}"


def remove_leftovers(parent: Path) -> None:
    """Remove this user's folders whose owners, on this machine, are dead. One without a lock is left: nobody knows."""
    for folder in parent.glob(f"{PREFIX}*"):
        try:
            if folder.is_symlink() or folder.stat().st_uid != os.geteuid():
                continue
            with open(folder / LOCK, "r+") as owner:
                if owner.read() != _this_machine():
                    continue
                fcntl.flock(owner, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
        except OSError:  # alive, being removed by somebody else, or without a lock
            continue
