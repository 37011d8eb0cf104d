"""Imports that take long, made while this process waits for workers."""

from __future__ import annotations

from contextlib import suppress
from importlib import import_module
from threading import Thread


def import_ahead(module: str) -> None:
    """Import a module in a thread. If that fails, the next import of it raises the error."""

    def load() -> None:
        with suppress(ImportError):
            import_module(module)

    Thread(target=load, daemon=True).start()
