"""Blocks on threads: every row once, and the BLAS of the process as it was before, whoever runs at the same time."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, Event, Lock

import numpy as np
import pytest
from threadpoolctl import ThreadpoolController, threadpool_limits

from ikmap import _threads
from ikmap._threads import ahead, for_each_block
from tests import ROOT


def blas_threads() -> list[int]:
    return [library["num_threads"] for library in ThreadpoolController().select(user_api="blas").info()]


@pytest.fixture
def _two_blas_threads() -> Iterator[None]:
    # On a thread that ends: threadpoolctl would let nobody else change the number while the thread lives that did.
    with ThreadPoolExecutor(1) as pool:
        limits = pool.submit(threadpool_limits, limits=2, user_api="blas").result()
    assert set(blas_threads()) == {2}
    yield
    with ThreadPoolExecutor(1) as pool:
        pool.submit(limits.restore_original_limits).result()


@pytest.mark.parametrize("n_threads", [1, 3, None])
@pytest.mark.parametrize(("n", "block"), [(0, 4), (1, 4), (4, 4), (5, 4), (103, 7)])
def test_every_row_is_in_one_block(n: int, block: int, n_threads: int | None) -> None:
    seen = np.zeros(n, dtype=int)
    sizes: list[int] = []

    def work(start: int, stop: int) -> None:
        seen[start:stop] += 1
        sizes.append(stop - start)

    for_each_block(work, n, block, n_threads)
    assert (seen == 1).all()
    assert sum(sizes) == n
    assert max(sizes, default=0) <= block


@pytest.mark.parametrize("n_threads", [1, 2])
@pytest.mark.usefixtures("_two_blas_threads")
def test_blas_has_one_thread_inside_and_its_own_number_afterwards(n_threads: int) -> None:
    inside: list[list[int]] = []
    for_each_block(lambda start, stop: inside.append(blas_threads()), 8, 2, n_threads)  # noqa: ARG005
    assert {count for counts in inside for count in counts} == {1}
    assert set(blas_threads()) == {2}


@pytest.mark.usefixtures("_two_blas_threads")
def test_callers_that_overlap_do_not_spoil_each_others_setting() -> None:
    """The first to enter leaves while the second is still inside, which with a limit each restores in wrong order."""
    both_inside, first_has_left = Barrier(2), Event()
    after_first: list[list[int]] = []

    def first(start: int, stop: int) -> None:  # noqa: ARG001
        both_inside.wait(timeout=30)

    def second(start: int, stop: int) -> None:  # noqa: ARG001
        both_inside.wait(timeout=30)
        assert first_has_left.wait(timeout=30)
        after_first.append(blas_threads())

    with ThreadPoolExecutor(2) as pool:
        one, two = (pool.submit(for_each_block, work, 1, 1, 1) for work in (first, second))
        one.result()
        first_has_left.set()
        two.result()
    assert {count for counts in after_first for count in counts} == {1}
    assert set(blas_threads()) == {2}


@pytest.mark.slow
@pytest.mark.usefixtures("_two_blas_threads")
def test_many_callers_at_once() -> None:
    seen: set[int] = set()
    lock = Lock()

    def work(start: int, stop: int) -> None:  # noqa: ARG001
        counts = blas_threads()
        with lock:
            seen.update(counts)

    with ThreadPoolExecutor(8) as pool:
        for done in [pool.submit(for_each_block, work, 3, 1, 1 + k % 2) for k in range(64)]:
            done.result()
    assert seen == {1}
    assert set(blas_threads()) == {2}


@pytest.mark.parametrize("n_threads", [1, 2])
@pytest.mark.usefixtures("_two_blas_threads")
def test_an_exception_gets_out_and_the_rest_is_left_out(n_threads: int) -> None:
    begun: list[int] = []

    def work(start: int, stop: int) -> None:  # noqa: ARG001
        begun.append(start)
        if start == 0:
            raise ZeroDivisionError
        time.sleep(0.02)  # else the other thread could be through with everything before the failure is known

    with pytest.raises(ZeroDivisionError):
        for_each_block(work, 1000, 1, n_threads)
    assert len(begun) < 1000
    assert set(blas_threads()) == {2}


def test_libraries_are_looked_up_once() -> None:
    for_each_block(lambda start, stop: None, 1, 1, 1)  # noqa: ARG005
    before = _threads._blas()
    for_each_block(lambda start, stop: None, 1, 1, 1)  # noqa: ARG005
    assert _threads._blas() is before


def test_one_blas_thread_stays_one() -> None:
    with ThreadPoolExecutor(1) as pool:
        limits = pool.submit(threadpool_limits, limits=1, user_api="blas").result()
    for_each_block(lambda start, stop: None, 4, 1, 2)  # noqa: ARG005
    assert set(blas_threads()) == {1}
    with ThreadPoolExecutor(1) as pool:
        pool.submit(limits.restore_original_limits).result()


def test_ahead_gives_all_in_order_and_is_one_ahead() -> None:
    begun: list[int] = []
    next_one = [Event() for _ in range(6)]

    def work(item: int) -> int:
        begun.append(item)
        next_one[item].set()
        return item * item

    for k, found in enumerate(ahead(work, range(5))):
        assert found == k * k
        if k < 4:
            assert next_one[k + 1].wait(10)  # without being asked for
        assert begun == list(range(min(k + 2, 5)))
    assert list(ahead(work, [])) == []


def test_ahead_passes_errors_on_where_they_belong() -> None:
    results = ahead(lambda k: 1 // k, [1, 0, 1])
    assert next(results) == 1
    with pytest.raises(ZeroDivisionError):
        next(results)


def test_ahead_may_be_left_early() -> None:
    begun: list[int] = []
    results = ahead(begun.append, range(100))
    next(results)
    results.close()  # type: ignore[attr-defined]
    assert begun in ([0], [0, 1])


LATE = """
import numpy
from concurrent.futures import ThreadPoolExecutor
from threadpoolctl import ThreadpoolController, threadpool_limits
from ikmap._threads import for_each_block

def blas():
    return ThreadpoolController().select(user_api="blas").info()

def limited(start, stop):
    assert {library["num_threads"] for library in blas()} == {1}

def on_two_threads():
    with ThreadPoolExecutor(1) as pool:
        pool.submit(threadpool_limits, limits=2, user_api="blas").result()
    for_each_block(limited, 1, 1, 1)

on_two_threads()
before = len(blas())
import scipy.linalg
on_two_threads()
print(before, len(blas()))
"""


@pytest.mark.slow
def test_a_blas_that_is_loaded_later_has_one_thread_inside_too() -> None:
    done = subprocess.run([sys.executable, "-c", LATE], capture_output=True, text=True, check=True, cwd=ROOT)
    before, after = map(int, done.stdout.split())
    if before == after:
        pytest.skip("SciPy has no BLAS of its own here")
    assert after > before
