"""Chains of stages at the same time: what they give, and how one that fails or an interrupt stops the others."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from contextvars import ContextVar
from functools import partial

import pytest

from pipeline.errors import InputError
from pipeline.running.side_by_side import side_by_side, stop_on_request

SECONDS = 60.0


def until_told(began: threading.Event, ended: threading.Event) -> Callable[[], None]:
    """A chain that goes on until it is told to stop."""

    def chain() -> None:
        began.set()
        pause = threading.Event()
        try:
            for _ in range(int(SECONDS / 0.01)):
                stop_on_request()
                pause.wait(0.01)
        except KeyboardInterrupt:
            ended.set()
            raise

    return chain


def test_chains_run_at_the_same_time_and_give_what_they_return() -> None:
    meet = threading.Barrier(3)

    def chain(k: int) -> int:
        meet.wait(SECONDS)  # fails unless all three are there
        stop_on_request()
        return k * k

    assert side_by_side({f"{k}": partial(chain, k) for k in range(3)}) == {"0": 0, "1": 1, "2": 4}


def test_one_chain_runs_in_the_thread_of_its_caller() -> None:
    assert side_by_side({"only": threading.get_ident}) == {"only": threading.get_ident()}


def test_chains_see_the_context_of_the_caller_and_keep_theirs_to_themselves() -> None:
    variable: ContextVar[int] = ContextVar("variable", default=0)
    variable.set(3)

    def chain(k: int) -> int:
        variable.set(variable.get() + k)
        return variable.get()

    assert side_by_side({"a": lambda: chain(1), "b": lambda: chain(2)}) == {"a": 4, "b": 5}
    assert variable.get() == 3


def test_one_that_fails_stops_the_others_and_its_error_gets_out() -> None:
    began, ended = threading.Event(), threading.Event()

    def failing() -> None:
        assert began.wait(SECONDS)
        raise InputError("row 2: found nothing")

    with pytest.raises(InputError, match=r"^row 2: found nothing$"):
        side_by_side({"endless": until_told(began, ended), "failing": failing})
    assert ended.is_set()


def test_an_interrupt_stops_all() -> None:
    chains = [(threading.Event(), threading.Event()) for _ in range(2)]

    def interrupt() -> None:
        for began, _ in chains:
            assert began.wait(SECONDS)
        # Again, if need be: an interrupt that meets a callback of the garbage collector is lost in it.
        for _ in range(5):
            signal.raise_signal(signal.SIGINT)
            if stopped.wait(5.0):
                return

    stopped = threading.Event()
    killer = threading.Thread(target=interrupt)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
    try:
        killer.start()
        with pytest.raises(KeyboardInterrupt):
            side_by_side({str(k): until_told(*events) for k, events in enumerate(chains)})
        stopped.set()
        killer.join()
    finally:
        signal.signal(signal.SIGINT, before)
    assert all(ended.is_set() for _, ended in chains)


def test_outside_of_chains_nobody_is_told_to_stop() -> None:
    stop_on_request()
