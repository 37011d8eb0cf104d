"""Caches that a process keeps from one task to the next, all of them in one place.

No cache decides a result: a process that has lost a value, or is new, reads or makes it again. All caches belong to
:data:`PROCESS`; a module that keeps values makes a :class:`LRUCache` there, once, as it is imported.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from threading import RLock


class LRUCache[K, V]:
    """Values by key, of which those used last stay; for all threads of a process.

    Parameters
    ----------
    most : int or None
        Number of values that stay; None: all.

    Attributes
    ----------
    lock : RLock
        Lock to be held during several calls that belong together.
    """

    def __init__(self, most: int | None) -> None:
        self.most = most
        self.lock = RLock()
        self._values: OrderedDict[K, V] = OrderedDict()

    def __len__(self) -> int:
        return len(self._values)

    def __iter__(self) -> Iterator[K]:
        """Return the keys, the one that was used last at the end."""
        with self.lock:
            return iter(list(self._values))

    def get(self, key: K) -> V | None:
        """Return the value of a key, which is now the one used last, or None."""
        with self.lock:
            if key in self._values:
                self._values.move_to_end(key)
            return self._values.get(key)

    def put(self, key: K, value: V) -> None:
        """Keep a value, and drop those used longest ago if there are too many."""
        with self.lock:
            self._values[key] = value
            self._values.move_to_end(key)
            while self.most is not None and len(self._values) > self.most:
                self._values.popitem(last=False)

    def make_room(self) -> None:
        """Make room for one more value before it is made and takes memory."""
        with self.lock:
            while self.most is not None and len(self._values) >= self.most:
                self._values.popitem(last=False)

    def take(self, key: K) -> V | None:
        """Remove and return the value of a key, or None."""
        with self.lock:
            return self._values.pop(key, None)

    def values(self) -> list[V]:
        """Return all values, the one that was used last at the end."""
        with self.lock:
            return list(self._values.values())

    def forget(self) -> None:
        """Drop all values."""
        with self.lock:
            self._values.clear()


class Process:
    """The owner of all caches of this process."""

    def __init__(self) -> None:
        self._all: list[LRUCache[object, object]] = []

    def keeps[K, V](self, most: int | None) -> LRUCache[K, V]:
        """Return a new cache of at most `most` values (:class:`LRUCache`)."""
        cache: LRUCache[K, V] = LRUCache(most)
        self._all.append(cache)  # type: ignore[arg-type]
        return cache

    def forget(self) -> None:
        """Empty all caches, as in a process that has just begun."""
        for cache in self._all:
            cache.forget()


PROCESS = Process()
"""This process."""
