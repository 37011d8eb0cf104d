"""What a process keeps from one task to the next, all of it in one place.

Nothing that is kept decides a result: a process that has lost it, or is new, reads or makes it again. What is kept
belongs to :data:`PROCESS`; a module that wants something kept asks it for a :class:`LRUCache`, once, as it is imported.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from threading import RLock


class LRUCache[K, V]:
    """Things by key, of which the latest used ones stay; for all threads of a process.

    Parameters
    ----------
    most : int or None
        How many stay; None: all of them.

    Attributes
    ----------
    lock : RLock
        To be held by whoever does several things that belong together.
    """

    def __init__(self, most: int | None) -> None:
        self.most = most
        self.lock = RLock()
        self._things: OrderedDict[K, V] = OrderedDict()

    def __len__(self) -> int:
        return len(self._things)

    def __iter__(self) -> Iterator[K]:
        """The keys, the one that was used last at the end."""
        with self.lock:
            return iter(list(self._things))

    def get(self, key: K) -> V | None:
        """What is kept under a key, which is now the one used last; None where nothing is."""
        with self.lock:
            if key in self._things:
                self._things.move_to_end(key)
            return self._things.get(key)

    def put(self, key: K, thing: V) -> None:
        """Keep something, instead of what was used longest ago if there are too many."""
        with self.lock:
            self._things[key] = thing
            self._things.move_to_end(key)
            while self.most is not None and len(self._things) > self.most:
                self._things.popitem(last=False)

    def make_room(self) -> None:
        """Have room for one thing more, for what takes its room as it is made."""
        with self.lock:
            while self.most is not None and len(self._things) >= self.most:
                self._things.popitem(last=False)

    def take(self, key: K) -> V | None:
        """What is kept under a key, which is no longer kept; None where nothing is."""
        with self.lock:
            return self._things.pop(key, None)

    def values(self) -> list[V]:
        """All that is kept, what was used last at the end."""
        with self.lock:
            return list(self._things.values())

    def forget(self) -> None:
        """Keep nothing any more."""
        with self.lock:
            self._things.clear()


class Process:
    """The owner of all that this process keeps."""

    def __init__(self) -> None:
        self._all: list[LRUCache[object, object]] = []

    def keeps[K, V](self, most: int | None) -> LRUCache[K, V]:
        """A new place for things of one sort; see :class:`LRUCache`."""
        kept: LRUCache[K, V] = LRUCache(most)
        self._all.append(kept)  # type: ignore[arg-type]
        return kept

    def forget(self) -> None:
        """Be as a process that has just begun."""
        for kept in self._all:
            kept.forget()


PROCESS = Process()
"""This process."""
