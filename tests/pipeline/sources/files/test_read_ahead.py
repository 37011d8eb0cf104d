"""Reading ahead: the same items and errors in the same order, few at a time, and no thread that is left behind."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Iterator
from contextlib import nullcontext
from contextvars import ContextVar

import pytest

from pipeline.errors import InputError
from pipeline.sources.files.read_ahead import AHEAD, read_ahead


def threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("read-ahead")]


def no_thread_is_left() -> bool:
    """Return whether the threads have ended, which they may do a moment after their generator."""
    deadline = time.monotonic() + 60
    while threads() and time.monotonic() < deadline:
        time.sleep(0.001)
    return threads() == []


@pytest.fixture(scope="module", autouse=True)
def no_thread_of_other_tests() -> None:
    """Collect what tests of other files have abandoned in the middle of a file with a fault."""
    gc.collect()
    assert no_thread_is_left()


@pytest.mark.parametrize("n", [0, 1, 2, 3, 50])
def test_items_come_in_their_order(n: int) -> None:
    assert list(read_ahead(iter(range(n)))) == list(range(n))
    assert threads() == []


def test_an_error_comes_after_the_items_before_it() -> None:
    def items() -> Iterator[int]:
        yield 1
        yield 2
        raise InputError("rows.csv: line 3: found x")

    ahead = read_ahead(items())
    assert [next(ahead), next(ahead)] == [1, 2]
    with pytest.raises(InputError, match=r"^rows\.csv: line 3: found x$"):
        next(ahead)
    assert threads() == []


def test_few_items_are_made_before_they_are_taken() -> None:
    made: list[int] = []

    def items() -> Iterator[int]:
        for item in range(100):
            made.append(item)
            yield item

    for k, _ in enumerate(read_ahead(items())):
        time.sleep(0.0005)
        assert len(made) <= k + 1 + AHEAD


def test_the_next_item_is_made_while_one_is_in_use() -> None:
    second = threading.Event()

    def items() -> Iterator[int]:
        yield 1
        second.set()
        yield 2

    for item in read_ahead(items()):
        if item == 1:
            assert second.wait(timeout=60)


def test_the_thread_ends_with_the_generator() -> None:
    ended: list[str] = []

    def items() -> Iterator[int]:
        try:
            yield from range(1000)
        finally:
            ended.append(threading.current_thread().name)

    ahead = read_ahead(items())
    assert next(ahead) == 0
    assert len(threads()) == 1
    ahead.close()  # type: ignore[attr-defined]
    del ahead
    assert no_thread_is_left()
    assert len(ended) == 1

    def broken() -> None:
        for item in read_ahead(items()):
            raise ValueError(item)

    with pytest.raises(ValueError, match="0"):
        broken()
    assert no_thread_is_left()


def test_no_item_is_being_made_once_it_is_closed() -> None:
    making, made = threading.Event(), []

    def items() -> Iterator[int]:
        yield 1
        making.set()
        time.sleep(0.05)
        made.append(2)
        yield 2

    ahead = read_ahead(items())
    assert next(ahead) == 1
    assert making.wait(timeout=60)
    ahead.close()  # type: ignore[attr-defined]
    assert made == [2]
    assert no_thread_is_left()


def test_it_can_be_closed_while_another_thread_is_being_started() -> None:
    """The garbage collector may close it there, where Python 3.12 holds a lock that the end of a thread needs."""
    ahead = read_ahead(iter(range(100)))
    assert next(ahead) == 0
    held, closed = threading.Event(), threading.Event()

    def close() -> None:
        held.wait(timeout=60)
        ahead.close()  # type: ignore[attr-defined]
        closed.set()

    closer = threading.Thread(target=close)
    closer.start()
    with getattr(threading, "_shutdown_locks_lock", nullcontext()):
        held.set()
        in_time = closed.wait(timeout=20)
    closer.join()
    assert in_time


def test_the_thread_knows_what_its_task_knows() -> None:
    limit = ContextVar("limit", default=0)
    limit.set(7)

    def items() -> Iterator[int]:
        yield limit.get()

    assert list(read_ahead(items())) == [7]
