"""``python -m tests.soaks.power_cut``: cut the power at each record of small runs, and give the same command again.

What was flushed, and when, is known from every call of `os.fsync`: the contents of files, and the entries of
directories. After a cut, a disk may have any part of what was not flushed. Three disks are tried at each moment:

lost
    Only what was flushed is there, and every record and manifest, which promise the rest; an entry that was flushed, of
    a file that was not, is an empty file.
zeroed, cut
    All entries are there, but files whose contents were not flushed are zeros, or end in the middle.
"""

from __future__ import annotations

import os
import stat
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.support.one_process import commands, one_process, results, write_rows

VARIANTS = ("lost", "zeroed", "cut")


@dataclass
class Disk:
    """What of a directory would survive, and copies of it at each moment when a record had just been written.

    Parameters
    ----------
    top : Path
    copies : Path
        Where to put the disks: ``NNN-what/variant``.
    forgets : str
        Files whose paths have this in them only seem to be flushed.
    every : int
        Copies are made at every n-th moment, from the second one on.
    """

    top: Path
    copies: Path
    forgets: str = ""
    every: int = 1
    moments: list[Path] = field(default_factory=list)
    _files: dict[int, bytes] = field(default_factory=dict)
    _folders: dict[int, dict[str, tuple[int, bool]]] = field(default_factory=dict)
    _held: list[int] = field(default_factory=list)
    _lock: Any = field(default_factory=threading.RLock)

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Note what is flushed."""
        fsync, replace = os.fsync, os.replace

        def flushing(handle: int) -> None:
            fsync(handle)
            if self.forgets and self.forgets in os.readlink(f"/proc/self/fd/{handle}"):
                return
            with self._lock:
                self._flushed(handle)

        def replacing(source: Any, target: Any, **options: Any) -> None:
            replace(source, target, **options)
            if self._is_promise(Path(target)):
                with self._lock:
                    self._cut(Path(target).name)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(os, "fsync", flushing)
            patch.setattr(os, "replace", replacing)
            try:
                yield
            finally:
                for handle in self._held:
                    os.close(handle)

    def _is_promise(self, path: Path) -> bool:
        if not path.is_relative_to(self.top):
            return False
        place = path.relative_to(self.top)
        return path.suffix == ".json" and (place.parts[0] == "records" or len(place.parts) == 1)

    def _flushed(self, handle: int) -> None:
        path = Path(os.readlink(f"/proc/self/fd/{handle}"))
        about = os.fstat(handle)
        if about.st_ino not in self._files and about.st_ino not in self._folders:
            self._held.append(os.dup(handle))  # so that nothing else gets its number
        if not stat.S_ISDIR(about.st_mode):
            self._files[about.st_ino] = os.pread(handle, about.st_size, 0)
            return
        self._folders[about.st_ino] = {
            entry.name: (entry.inode(), entry.is_dir(follow_symlinks=False)) for entry in os.scandir(path)
        }

    def _cut(self, what: str) -> None:
        moment = self.copies / f"{len(self.moments):03d}-{what}"
        self.moments.append(moment)
        if (len(self.moments) - 2) % self.every:
            return
        self._lose(self.top.stat().st_ino, moment / "lost")
        for path in self.top.rglob("*.json"):
            if self._is_promise(path):
                kept = moment / "lost" / path.relative_to(self.top)
                kept.parent.mkdir(parents=True, exist_ok=True)
                kept.write_bytes(path.read_bytes())
        for variant in ("zeroed", "cut"):
            self._tear(self.top, moment / variant, variant)

    def _lose(self, folder: int, target: Path) -> None:
        target.mkdir(parents=True)
        for name, (number, is_folder) in self._folders.get(folder, {}).items():
            if is_folder:
                self._lose(number, target / name)
            else:
                (target / name).write_bytes(self._files.get(number, b""))

    def _tear(self, folder: Path, target: Path, variant: str) -> None:
        target.mkdir(parents=True)
        for entry in os.scandir(folder):
            if entry.is_dir():
                self._tear(Path(entry), target / entry.name, variant)
                continue
            content = Path(entry).read_bytes()
            if self._files.get(entry.inode()) != content:
                content = bytes(len(content)) if variant == "zeroed" else content[: len(content) // 2]
            (target / entry.name).write_bytes(content)


def main() -> int:
    """Print a line for each moment; the status is 1 if a run did not go on to the same bits."""
    wrong = tried = 0
    with tempfile.TemporaryDirectory() as name, one_process():
        folder = Path(name)
        for what, command in commands(write_rows(folder)).items():
            disk = Disk(folder / what, folder / f"{what}-cut")
            with disk.watched():
                command.run(folder / what)
            expected = results(folder / what)
            for moment in disk.moments:
                said = []
                for variant in VARIANTS:
                    try:
                        command.run(moment / variant)
                        same = results(moment / variant) == expected
                        said.append("same bits" if same else "OTHER BITS")
                    except Exception as error:
                        said.append(f"{type(error).__name__}: {error}")
                tried += len(said)
                wrong += sum(line != "same bits" for line in said)
                print(f"{what} {moment.name}: {', '.join(said)}", flush=True)
    print(f"{tried} cuts, {wrong} not gone on to the same bits")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
