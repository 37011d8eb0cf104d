"""Compiled loops, and for which types each of them is compiled: said beside the loop, known before anything runs.

    @compiled({"anne dense": "f8[:, ::1], f8[::1], f8, i4[::1], f4[:, :, ::1]"})
    def fill_lines(centers, shift, scale, numbers, lines): ...

The key says which runs need the signature. A run is described by words (:func:`pipeline.running.compiling.words_of`):
names of its methods, "dense" or "sparse", "cells-online", "multiclass" and the like. Above, those need it that are
described by both "anne" and "dense". With a comma, as in "anne dense, idk", those need it that are described by all
words before the comma or by all after it. A name in braces stands for several signatures: ``{cells}`` for one of each
layout of cells, of which each has a word of its own, such as "narrow" (:data:`LAYOUTS`); or for an argument that is a
group of several (:func:`group`). Loops without a declaration are compiled as part of others, or as they are called.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from itertools import product
from string import Formatter
from types import FunctionType
from typing import Any, Protocol, cast, overload

from numba import njit, types
from numba.core import sigutils

from ikmap._compiled_cache import CompiledCache, Target


class Dispatcher(Protocol):
    """A function that Numba has compiled, or compiles when it is called."""

    py_func: FunctionType
    targetctx: Target
    _cache: CompiledCache

    def compile(self, sig: tuple[types.Type, ...]) -> object: ...

    def __call__(self, *args: Any) -> Any: ...


LAYOUTS = {
    "cells": {
        "narrow": "Tuple((u1[:, ::1], u8[::1], f8))",
        "wide": "Tuple((u2[:, ::1], u8[::1], f8))",
    },
    "counted": {
        "narrow": "Tuple((u1[:, ::1], u8[::1], f8, f8))",
        "wide": "Tuple((u2[:, ::1], u8[::1], f8, f8))",
    },
    "gapped": {
        "narrow": "Tuple((u1[:, ::1], u8[::1], f8, i8))",
        "wide": "Tuple((u2[:, ::1], u8[::1], f8, i8))",
    },
    "mapped": {"": "Tuple((u4[:, ::1], u8[::1], f8))"},
    "dense": {"": "UniTuple(f8[:, ::1], 1)"},
    "csr": {"": "Tuple((f8[::1], i4[::1], i8[::1]))"},
}
"""Signatures of rows by layout: cells in one byte or two, all or some of them; cells as stored; rows of data."""

GROUPS: dict[str, tuple[type, str]] = {}
"""Classes of named tuples that loops are given, by name, and the types of their fields."""


@dataclass(frozen=True)
class Loop:
    """A loop, and for which types it is compiled.

    Attributes
    ----------
    name : str
        Module and name.
    dispatcher : Dispatcher
        What Numba makes of a function.
    variants : mapping of str to tuple of frozensets
        Signatures as text; a run needs it that is described by all words of one of the sets.
    """

    name: str
    dispatcher: Dispatcher
    variants: Mapping[str, tuple[frozenset[str], ...]]

    def compile(self, signature: str) -> None:
        """Have the loop compiled for a signature, or load it from the cache."""
        self.dispatcher.compile(parsed(signature))

    def is_cached(self, signature: str) -> bool:
        """Return whether the cache on disk has the loop for this processor."""
        held: bool = self.dispatcher._cache.holds(parsed(signature), self.dispatcher.targetctx)
        return held

    @property
    def weight(self) -> int:
        """Rough time of compiling it, relative to other loops: the length of its code and of the functions it calls."""
        return _length(self.dispatcher.py_func, set())


LOOPS: dict[str, Loop] = {}
"""All loops of the modules that have been imported, by name."""


@overload
def compiled(variants: Callable[..., object]) -> Dispatcher: ...


@overload
def compiled(
    variants: Mapping[str, str | Iterable[str]] | None = None, **flags: object
) -> Callable[[Callable[..., object]], Dispatcher]: ...


def compiled(
    variants: Mapping[str, str | Iterable[str]] | Callable[..., object] | None = None, **flags: object
) -> Dispatcher | Callable[[Callable[..., object]], Dispatcher]:
    """Decorate a loop: compiled by Numba without Python objects and without the GIL, kept on the disk.

    Parameters
    ----------
    variants : mapping of str to str or several str, optional
        Which runs need which signatures; see above.
    **flags
        Options of :func:`numba.njit`.
    """
    if callable(variants):
        return compiled()(variants)

    def decorate(function: Callable[..., object]) -> Dispatcher:
        # Nobody calls a loop through C: that wrapper is not made.
        given: dict[str, Any] = {"nogil": True, "no_cfunc_wrapper": True, **flags}
        dispatcher = cast(Dispatcher, njit(**given)(function))
        dispatcher._cache = CompiledCache(function, given)
        name = f"{function.__module__}.{function.__qualname__}"
        LOOPS[name] = Loop(name, dispatcher, _expanded(variants or {}))
        return dispatcher

    return decorate


def group[Kind: type](fields: str) -> Callable[[Kind], Kind]:
    """Decorate a class of named tuples, with the types of the fields: its name in braces is then one of an argument."""

    def decorate(kind: Kind) -> Kind:
        if kind.__name__ in GROUPS and GROUPS[kind.__name__][0].__module__ != kind.__module__:
            raise ValueError(f"two groups are called {kind.__name__}: give one of them another name")
        GROUPS[kind.__name__] = kind, fields
        return kind

    return decorate


def needed(words: Collection[str]) -> list[tuple[Loop, str]]:
    """Loops and signatures, of the modules that have been imported, that a run described by these words needs."""
    return [
        (loop, signature)
        for loop in LOOPS.values()
        for signature, groups in loop.variants.items()
        if any(group <= set(words) for group in groups)
    ]


def parsed(signature: str) -> tuple[types.Type, ...]:
    """Types of arguments, of their names."""
    known = {
        **vars(types),
        "NamedTuple": types.BaseTuple.from_types,
        **{name: kind for name, (kind, _) in GROUPS.items()},
    }
    args: tuple[types.Type, ...] = sigutils.normalize_signature(eval(f"({signature},)", known))[0]
    return args


def _expanded(variants: Mapping[str, str | Iterable[str]]) -> dict[str, tuple[frozenset[str], ...]]:
    named = {**LAYOUTS, **{name: {"": f"NamedTuple(({fields}), {name})"} for name, (_, fields) in GROUPS.items()}}
    found: dict[str, tuple[frozenset[str], ...]] = {}
    for runs, signatures in variants.items():
        for signature in (signatures,) if isinstance(signatures, str) else signatures:
            layouts = {name for _, name, _, _ in Formatter().parse(signature) if name}
            for chosen in product(*(named[name].items() for name in sorted(layouts))):
                types_of = dict(zip(sorted(layouts), (text for _, text in chosen), strict=True))
                more = {word for word, _ in chosen if word}
                groups = tuple(frozenset({*alternative.split(), *more}) for alternative in runs.split(","))
                text = signature.format(**types_of)
                found[text] = found.get(text, ()) + groups
    return found


def _length(function: FunctionType, seen: set[FunctionType]) -> int:
    if function in seen:
        return 0
    seen.add(function)
    code, total = function.__code__, len(function.__code__.co_code)
    for name in code.co_names:
        called = function.__globals__.get(name)
        total += _length(called.py_func, seen) if called is not None and hasattr(called, "py_func") else 0
    return total
