"""Checkpoints of learners: arrays in one file, which is the old one or the whole new one."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from pipeline.errors import writing


def save_checkpoint(path: str, arrays: Mapping[str, np.ndarray]) -> None:
    """Replace the checkpoint in one step."""
    folder = Path(path).parent
    folder.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=folder, suffix=".partial")
    try:
        with writing(path), os.fdopen(handle, "wb") as file:
            np.savez(file, allow_pickle=False, **arrays)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
