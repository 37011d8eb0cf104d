"""The folder in which Dask keeps its temporary files: one for each process, and none left of those that are dead."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PREFIX = "ikmap-dask-"
LOCK = ".owner"
"""Locked by the process that made the folder, as long as it lives: the system unlocks it however the process ends."""


@contextmanager
def scratch_folder() -> Iterator[str]:
    """Make a folder for this process and remove it in the end; remove those of processes that were killed."""
    remove_leftovers(Path(tempfile.gettempdir()))
    with tempfile.TemporaryDirectory(prefix=PREFIX, ignore_cleanup_errors=True) as folder:
        unlocked = Path(folder, f"{LOCK}.new")
        with open(unlocked, "w") as owner:
            fcntl.flock(owner, fcntl.LOCK_EX)
            unlocked.rename(unlocked.with_name(LOCK))  # others see it locked or not at all
            yield folder


def remove_leftovers(parent: Path) -> None:
    """Remove the folders of this user whose owners are dead. One without a lock is left alone: nobody knows."""
    for folder in parent.glob(f"{PREFIX}*"):
        try:
            if folder.is_symlink() or folder.stat().st_uid != os.geteuid():
                continue
            with open(folder / LOCK, "r+") as owner:
                fcntl.flock(owner, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
        except OSError:  # alive, being removed by somebody else, or without a lock
            continue
