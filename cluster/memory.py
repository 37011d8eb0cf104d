"""The memory that the control groups of this process leave it: a Slurm job, a service of systemd, a container."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath

type Names = tuple[str, str, tuple[str, ...]]
"""Files of a group with its limit and its use, and the lines of ``memory.stat`` about files that may be dropped."""

_V1: Names = ("memory.limit_in_bytes", "memory.usage_in_bytes", ("total_inactive_file", "total_active_file"))
_V2: Names = ("memory.max", "memory.current", ("inactive_file", "active_file"))


def room(process: Path = Path("/proc/self"), mounted: Path = Path("/sys/fs/cgroup")) -> float:
    """Return the bytes that the groups of a process leave it, or infinity if none of them has a limit.

    Of the group of the process and all groups above it, the one counts whose limit less its use is the least. Use is
    that of all processes of a group, without cached files, which the system drops where memory is wanted.

    Parameters
    ----------
    process : Path
        Folder of the process below ``/proc``.
    mounted : Path
        Folder in which the groups are mounted.
    """
    return min((_left(folder, *names) for folder, names in _groups(process, mounted)), default=math.inf)


def _groups(process: Path, mounted: Path) -> Iterator[tuple[Path, Names]]:
    """Yield the folders of the groups of a process and of those above them, and the names of their files."""
    for line in _text(process / "cgroup").splitlines():
        _, controllers, path = [*line.split(":", 2), "", ""][:3]
        if not controllers:
            top, names = mounted, _V2
        elif "memory" in controllers.split(","):
            top, names = mounted / "memory", _V1
        else:
            continue
        # A container may be told a path outside of what it sees: its own group is then the topmost one that it has.
        group = top.joinpath(*(part for part in PurePosixPath(path).parts if part not in ("/", "..")))
        for folder in (group, *group.parents):
            if folder.is_relative_to(top):
                yield folder, names


def _left(folder: Path, limit: str, use: str, droppable: Sequence[str]) -> float:
    """Return the bytes that a group may still take, or infinity if it has no limit."""
    most = _number(_text(folder / limit))
    if most is None:
        return math.inf
    lines = dict(line.partition(" ")[::2] for line in _text(folder / "memory.stat").splitlines())
    cached = sum(_number(lines.get(name, "")) or 0 for name in droppable)
    used = (_number(_text(folder / use)) or 0) - cached
    return max(0, most - max(0, used))


def _number(text: str) -> int | None:
    """Return the number that a text is; None for others, such as "max"."""
    return int(text) if text.strip().isdecimal() else None


def _text(file: Path) -> str:
    """Return the text of a file, or nothing if it cannot be read."""
    try:
        return file.read_text()
    except (OSError, ValueError):
        return ""
