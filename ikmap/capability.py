"""Capabilities: what only some methods and tasks can do. A stage asks for one by :func:`capability`."""

from __future__ import annotations

from abc import ABC, abstractmethod


class Offers(ABC):
    """An object whose capabilities depend on its configuration or on its parts."""

    @abstractmethod
    def offered[C](self, kind: type[C]) -> C | None:
        """Return the object or the part of it that has the capability, or None."""


def capability[C](owner: object, kind: type[C]) -> C | None:
    """Return an object, or the part of it, that has a capability, or None.

    Parameters
    ----------
    owner : object
        A method or a task. A task has the capabilities of its kind, codec, decisions and scorer.
    kind : type
        The capability, an abstract class.
    """
    if isinstance(owner, Offers):
        return owner.offered(kind)
    return owner if isinstance(owner, kind) else None
