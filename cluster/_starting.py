"""How every kind of cluster is started: in one piece, without Dask's own talk, and with one line where it fails."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from cluster._quiet import interrupts_held, quiet_logs
from pipeline.errors import InputError


@contextmanager
def starting(name: str, stack: ExitStack) -> Iterator[None]:
    """Start something that ``stack`` has to close; interrupts wait, and Dask is quiet until the stack is closed.

    Raises
    ------
    InputError
        For what Dask says where an address, an interface, a port or a folder cannot be had.
    """
    with interrupts_held():
        stack.enter_context(quiet_logs())
        try:
            yield
        except (RuntimeError, ValueError, OSError) as error:
            reason = _reason(error)
            if reason is None:
                raise
            raise InputError(f"--cluster {name}: {reason}") from None


def _reason(error: BaseException) -> str | None:
    """What the system said at first, if it did, for Dask may have stumbled over its own cleaning up; else Dask's."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause.strerror:
            return f"{cause.filename}: {cause.strerror}" if cause.filename else cause.strerror
        cause = cause.__cause__ or cause.__context__
    return " ".join(str(error).split()) if isinstance(error, RuntimeError) else None
