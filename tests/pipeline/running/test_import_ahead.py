"""Imports while a process waits: another thread makes them, and what is missing is said where it is used."""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path

import pytest

from pipeline.running.import_ahead import import_ahead


def test_a_module_is_there_when_it_is_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = "import threading, time", "time.sleep(0.3)", "by = threading.current_thread()"
    (tmp_path / "takes_long.py").write_text("\n".join(lines))
    monkeypatch.syspath_prepend(tmp_path)
    import_ahead("takes_long")
    while "takes_long" not in sys.modules:
        time.sleep(0.01)
    import takes_long  # type: ignore[import-not-found]

    assert takes_long.by is not threading.main_thread()
    del sys.modules["takes_long"]


def test_a_module_that_is_missing_is_said_where_it_is_used() -> None:
    import_ahead("there_is_none_of_this_name")  # pytest would report an exception of a thread
    with pytest.raises(ModuleNotFoundError):
        import there_is_none_of_this_name  # type: ignore[import-not-found]  # noqa: F401
