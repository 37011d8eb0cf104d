"""A client without a cluster: it does every task in this process, so that tests need no workers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import Context
from functools import partial
from threading import get_ident
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from distributed import worker as dask_worker

from pipeline.running import compiling
from pipeline.running.measured import measured

if TYPE_CHECKING:
    from distributed import Client as Base
else:
    Base = object

ADDRESS = "in-process"
"""Address of the only worker, which is this process."""


@contextmanager
def on_worker(memory_limit: int) -> Iterator[None]:
    """Let what is done within find itself on a Dask worker that has so much memory."""
    worker: Any = SimpleNamespace(memory_manager=SimpleNamespace(memory_limit=memory_limit))
    token = dask_worker._worker_cvar.set(worker)
    try:
        yield
    finally:
        dask_worker._worker_cvar.reset(token)


class Pending:
    """The future of a call that is made once its end or its result is asked for.

    Parameters
    ----------
    waiting : list of Pending
        Calls of the same kind that are not made yet, in their order.
    last_first : bool
        Whether it is made before those that are waiting.
    """

    def __init__(
        self,
        key: str,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        waiting: list[Pending],
        *,
        last_first: bool = False,
    ) -> None:
        self.key, self._call, self._waiting = key, partial(function, *args), waiting
        self._value: Any = None
        self.instead: Callable[[Callable[[], Any]], Any] | None = None
        """What is done instead, if anything is, given the call."""
        self._error: Exception | None = None
        waiting.insert(0 if last_first else len(waiting), self)

    def done(self) -> bool:
        """Return whether the result may be asked for: one task after the other is done."""
        return self not in self._waiting or self._waiting[0] is self

    def cancelled(self) -> bool:
        """Return whether the connection to the scheduler was lost: there is none."""
        return False

    @property
    def status(self) -> str:
        """Dask's word for how the call ended."""
        self._make()
        return "finished" if self._error is None else "error"

    def result(self) -> Any:
        """Return the result of the call."""
        self._make()
        if self._error is not None:
            raise self._error
        return self._value

    def cancel(self) -> None:
        """Give up the call if it is not made yet."""
        if self in self._waiting:
            self._waiting.remove(self)

    def release(self) -> None:
        """Forget the result."""
        self._value = None

    def _make(self) -> None:
        if self in self._waiting:
            self._waiting.remove(self)
            try:
                # As on a worker, which knows nothing of what its caller is about to promise.
                call = self._call if self.instead is None else partial(self.instead, self._call)
                self._value = Context().run(call)
            except Exception as error:
                self._error = error


def _on_worker(memory_limit: int, function: Callable[..., Any], *args: Any) -> Any:
    with on_worker(memory_limit):
        return function(*args)


def _looked(*_: object) -> tuple[list[object], None]:
    """Return that there is nothing to compile: this process compiles what it calls."""
    return [], None


class InProcess(Base):
    """A client without a cluster: it does every task in this process, one after the other.

    It has those members of a Dask client that runs use, and takes the place of one.

    Parameters
    ----------
    memory_limit : int, optional
        Memory of the worker on which tasks find themselves; default: they find none.
    last_first : bool
        Whether two workers seem to be there, and of tasks that wait the last one is done first.
    """

    id = ADDRESS

    def __init__(self, memory_limit: int | None = None, *, last_first: bool = False) -> None:
        self._memory_limit, self._last_first = memory_limit, last_first
        self.scheduler: Any = self  # It is asked for the workers.
        self._waiting: dict[object, list[Pending]] = defaultdict(list)

    async def identity(self, n_workers: int) -> Any:  # noqa: ARG002
        """Return the description of the only worker, or of two."""
        worker = {"host": ADDRESS, "nthreads": 1}
        return {"workers": {ADDRESS: worker, **({f"{ADDRESS}-2": worker} if self._last_first else {})}}

    def sync(self, func: Callable[..., Any], *args: Any, **_: Any) -> Any:
        """Return what a coroutine returns that waits for nothing."""
        try:
            func(*args).send(None)
        except StopIteration as done:
            return done.value
        raise RuntimeError("found a coroutine that waits: nobody would wake it here")

    def submit(self, func: Callable[..., Any], *args: Any, key: str = "", **_: Any) -> Any:
        """Return the future of a call."""
        if func is not measured:
            return Pending(key, _looked if func is compiling._look else func, args, [])
        task, _args, *stage = args
        call = func if self._memory_limit is None else partial(_on_worker, self._memory_limit, func)
        waiting = self._waiting[get_ident(), task, *stage]
        return Pending(key, call, args, waiting, last_first=self._last_first)

    def gather(self, futures: Iterable[Any], *_: Any, **__: Any) -> Any:
        """Return the results of futures."""
        return [future.result() for future in futures]

    def cancel(self, futures: Sequence[Any], *_: Any, **__: Any) -> Any:
        """Give up calls that are not made yet."""
        for future in futures:
            future.cancel()

    def call_stack(self, *_: Any, **__: Any) -> Any:
        """Return what workers are at: nothing, whenever somebody has the time to ask."""
        return {}

    def restart_workers(self, workers: Sequence[str], *_: Any, **__: Any) -> Any:
        """Restart workers, of which none is ever at work."""
        assert not workers

    def run(self, *_: Any, **__: Any) -> Any:
        """Call a function in all other processes, of which there are none."""
        return {}

    def register_plugin(self, *_: Any, **__: Any) -> Any:
        """Start a plug-in in all other processes, of which there are none."""

    def log_event(self, *_: Any, **__: Any) -> Any:
        """Tell a scheduler, of which there is none."""
