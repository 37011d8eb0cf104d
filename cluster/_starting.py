"""The start of every kind of cluster: in one piece, without the talk of Dask, and with one line if it fails."""

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
    """Return the error of the system behind an error, if there is one; else the text of a RuntimeError of Dask."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause.strerror:
            return f"{cause.filename}: {cause.strerror}" if cause.filename else cause.strerror
        cause = cause.__cause__ or cause.__context__
    return " ".join(str(error).split()) if isinstance(error, RuntimeError) else None
