"""Capabilities: what only some methods and tasks can do. A stage asks for one by :func:`capability`."""

from __future__ import annotations

from abc import ABC, abstractmethod


class Offers(ABC):
    """An object whose capabilities depend on how it is configured, or on what it is made of."""

    @abstractmethod
    def offered[C](self, kind: type[C]) -> C | None:
        """Return the object, or its part, that is something of that kind; None if there is none."""


def capability[C](one: object, kind: type[C]) -> C | None:
    """Return an object as something of that kind, or None if it is not.

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
