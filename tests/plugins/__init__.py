"""Methods, tasks and a paper as strangers would write them, with tests that each works without an edit elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ikmap.methods import Method, register, unregister
from ikmap.tasks import Criterion, TaskKind


@contextmanager
def registered(*kinds: type[Method] | type[TaskKind] | type[Criterion]) -> Iterator[None]:
    """Make methods, tasks and metrics known by their names, as an installed package does, until the block ends."""
    for kind in kinds:
        register(kind)
    try:
        yield
    finally:
        for kind in kinds:
            unregister(name_of(kind))


def name_of(kind: type[Method] | type[TaskKind] | type[Criterion]) -> str:
    """Return the name under which a method, a task or a metric is registered."""
    if issubclass(kind, Criterion):
        return kind.metric.key
    return kind.name if issubclass(kind, TaskKind) else kind.about.name
