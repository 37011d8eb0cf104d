"""Capabilities: what only some methods and tasks can do. A stage asks for one by :func:`capability`."""

from __future__ import annotations

from abc import ABC, abstractmethod


class Offers(ABC):
    """An object whose capabilities depend on its configuration or on its parts."""

    @abstractmethod
    def offered[C](self, kind: type[C]) -> C | None:
        """Return the object or the part of it that has the capability, or None."""


def capability[C](one: object, kind: type[C]) -> C | None:
    """Return an object, or the part of it, that has a capability, or None.

    Parameters
    ----------
    one : object
        A method, or a task: of a task, its kind, codec, decisions and scorer are looked at.
    kind : type
        The capability, an abstract class.
    """
    if isinstance(one, Offers):
        return one.offered(kind)
    return one if isinstance(one, kind) else None
