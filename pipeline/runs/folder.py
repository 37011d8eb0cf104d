"""The directory of a run that the user has named."""

from __future__ import annotations

from pathlib import Path

from pipeline.errors import InputError


def folder_of_run(named: str) -> Path:
    """Return the absolute path of a directory given as ``--model``.

    Raises
    ------
    InputError
        There is no such directory.
    """
    path = Path(named).expanduser().absolute()
    if not path.is_dir():
        problem = "found a file, expected the directory" if path.exists() else "no such directory, expected that"
        raise InputError(f"--model {named}: {problem} of a finished run")
    return path
