"""All methods by name: built-in ones, those of papers, and those of packages with the entry point ``ikmap.methods``."""

from __future__ import annotations

import os
import sys
from collections.abc import Container, Iterable, Iterator, Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from ikmap.methods.composed import AND, composed_of_record, fields_of_composed, names_of
from ikmap.methods.fields import Field, FieldError, fields_of
from ikmap.methods.kernel import KernelMethod
from ikmap.methods.learner import Learner
from ikmap.methods.map import Map
from ikmap.methods.method import Method
from ikmap.methods.reserved import reserved_among
from ikmap.tasks import METRICS, TASKS, Criterion, TaskKind, task_words
from ikmap.tasks import register as register_task
from ikmap.tasks import unregister as unregister_task

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "ikmap.methods"
"""Group of entry points of packages with more methods; each names a class of a map, a learner or a kernel."""
PAPERS = "ikmap_papers"
"""Package with the papers that come with the product and the methods that only they need; it can be left out."""
WITHOUT_PAPERS = (
    f"the package {PAPERS}, which has the papers and the methods that only they need, is not installed; "
    f"type pip install '.[pipeline]' in a checkout of ikmap that has the folder {PAPERS}"
)
"""Message where something of :data:`PAPERS` is wanted and the package is not installed."""

MAPS: dict[str, type[Map]] = {}
LEARNERS: dict[str, type[Learner]] = {}
KERNELS: dict[str, type[KernelMethod]] = {}
PACKAGES: dict[str, str] = {}
"""Package of each method that is not built in, by the name of the method."""
MODULES: dict[str, str] = {}
"""Package of each module of packages that offer methods, tasks or metrics, by the first part of its name."""
FAULTS: list[str] = []
"""Faults of packages that offer methods, each a line with advice on what to type."""


class UnknownMethod(ValueError):
    """An error for an unknown method, of one line with the reason and what to do."""


def has_papers() -> bool:
    """Return whether the package of papers is installed.

    It is looked for by its name. Entry points would not do: an editable installation knows those of the day on which it
    was made.
    """
    spec = find_spec(PAPERS)
    return spec is not None and spec.origin is not None  # a folder that has lost its modules has a spec too


def faults() -> list[str]:
    """Return the reasons why a method may be unknown here: the faults of packages, and a package that is left out."""
    return FAULTS if has_papers() else [*FAULTS, WITHOUT_PAPERS]


def methods() -> dict[str, type[Method]]:
    """Return all methods: maps first."""
    return {**MAPS, **LEARNERS, **KERNELS}


def is_known(name: str) -> bool:
    """Return whether there is a method of that name, or a map for each part of it ("iforest,anne")."""
    return name in methods() or all(part in MAPS for part in names_of(name))


def method(name: str) -> type[Method]:
    """Return the class of that name.

    Raises
    ------
    UnknownMethod
    """
    known = methods()
    if name not in known:
        from socket import gethostname

        why = "; ".join(faults()) or "install the package that has it on this machine too, with pip"
        raise UnknownMethod(f"method {name!r} is not known on {gethostname()}: {why}")
    return known[name]


def map_kinds(name: str) -> tuple[type[Map], ...]:
    """Return the classes of the parts of a partitioner ("iforest,anne").

    Raises
    ------
    UnknownMethod
        There is no method of a name.
    FieldError
        A name is that of a learner or kernel.
    """
    kinds: list[type[Map]] = []
    for part in names_of(name):
        if part not in MAPS and part in methods():
            raise FieldError("partitioner", repr(part), f"some of {', '.join(MAPS)}")
        kind = method(part)
        assert issubclass(kind, Map)
        kinds.append(kind)
    return tuple(kinds)


def fields_by_name(name: str) -> Mapping[str, Field]:
    """Return the fields of the method of that name, which can be a composed map."""
    return fields_of_composed(map_kinds(name)) if AND in name else fields_of(method(name))


def configured(name: str, record: Mapping[str, object]) -> tuple[Method, frozenset[str]]:
    """Return the method of that name with the fields of a record, and the paths of the searched fields.

    Raises
    ------
    UnknownMethod
        There is no method of that name here: a worker may lack a package that the client has.
    FieldError
        A field cannot have its value.
    """
    if AND in name:
        return composed_of_record(map_kinds(name), record)
    return method(name).of_record(record)


def register(item: type[Method] | TaskKind | type[TaskKind] | type[Criterion], package: str = "") -> None:
    """Make a method, a kind of task or a metric known.

    Raises
    ------
    PackageError
        The name is taken, the item is not a class of a method, or a field has the name of an option of commands.
    """
    kind = item if isinstance(item, type) else type(item)
    if issubclass(kind, Criterion):
        _refuse_missing("metric", kind, package)
        _refuse_taken("metric", (kind.metric.key,), METRICS, package)
        register_task(kind)
        return
    if issubclass(kind, TaskKind):
        _refuse_missing("task", kind, package)
        _refuse_taken("task", (kind.name, *kind.words), {"auto", *task_words(), *TASKS}, package)
        register_task(item if isinstance(item, TaskKind) else kind)
        return
    if not isinstance(item, type) or not issubclass(item, Map | Learner | KernelMethod):
        found = item.__name__ if isinstance(item, type) else type(item).__name__
        raise PackageError(
            f"package {package}: found {found} in its entry point, expected a class of Map, Learner or KernelMethod of "
            f"ikmap.methods, or a TaskKind or a Criterion of ikmap.tasks; pip uninstall {package}, "
            "or mend it"
        )
    _refuse_missing("method", item, package)
    name = item.about.name
    _refuse_taken("method", (name,), methods(), package)
    fields = fields_of(item)
    for field in fields.values() if package else ():
        _ = field.given_kind, field.doc  # of ours they are read once somebody asks for them
    if taken := reserved_among(fields):
        raise PackageError(
            f"package {package}: its method {name!r} has an option {taken[0]!r}, a name that the commands use "
            f"themselves; pip uninstall {package}, or give the option another name there"
        )
    if package and issubclass(item, Learner) and item.about.on == "cells":
        searched = [key for key, field in fields.items() if field.searched is not None and key != "C"]
        if searched:
            raise PackageError(
                f"package {package}: its learner {name!r} has the option {searched[0]!r} marked Searched, but of a "
                "learner on cells cross-validation chooses C and the values of the map alone; pip uninstall "
                f"{package}, or name the option C there"
            )
    if issubclass(item, Map):
        MAPS[name] = item
    elif issubclass(item, Learner):
        LEARNERS[name] = item
    else:
        KERNELS[name] = item
    if package:
        PACKAGES[name] = package


def unregister(name: str) -> None:
    """Remove a method, a kind of task or a metric from the registry, if there is one of that name."""
    for registry in (MAPS, LEARNERS, KERNELS, PACKAGES):
        registry.pop(name, None)
    unregister_task(name)


def missing_members(kind: type) -> list[str]:
    """Return the members that a class of a method, a task or a metric lacks."""
    needed = ("metric",) if issubclass(kind, Criterion) else ("name", "presenter")
    if issubclass(kind, Method):
        needed = ("about",)
    abstract = sorted(getattr(kind, "__abstractmethods__", ()))
    return abstract + [name for name in needed if not hasattr(kind, name)]


class PackageError(ValueError):
    """An error for a faulty package that offers methods, of one line with what to type."""


def _refuse_missing(what: str, kind: type, package: str) -> None:
    if missing := missing_members(kind):
        raise PackageError(
            f"package {package}: its {what} {kind.__name__} lacks {', '.join(missing)}; pip uninstall {package}, or "
            "mend it"
        )


def _refuse_taken(kind: str, names: Iterable[str], taken: Container[str], package: str) -> None:
    for name in names:
        if name in taken:
            owner = PACKAGES.get(name, "ikmap")
            raise PackageError(
                f"package {package}: its {kind} {name!r} has a name that {owner} has taken; pip uninstall {package}, "
                f"or give the {kind} another name there"
            )


def import_models() -> None:
    """Import the modules of all models, so that each kind of model is known."""
    for module in {module for kind in methods().values() for module in kind.about.models}:
        import_module(module)


def load_papers() -> None:
    """Register the methods of papers, after the built-in ones, if their package is installed."""
    if has_papers():
        for kind in import_module(PAPERS).methods():
            register(kind, PAPERS)


def load_packages() -> None:
    """Register the methods of other packages, after the built-in ones."""
    for point in sorted(offered(GROUP), key=lambda point: (point.name, point.value)):
        _load(point)


def offered(group: str) -> Iterator[EntryPoint]:
    """Yield the entry points of installed packages in a group.

    Importing importlib.metadata and looking at all packages takes longer than the rest of ``--help``, so it is used
    only for packages whose file of entry points has the group. With ``IKMAP_PACKAGES=off`` in the environment, nothing
    is yielded.
    """
    if os.environ.get("IKMAP_PACKAGES") == "off":
        return
    seen = set()
    for folder in dict.fromkeys(sys.path):
        try:
            names = [name for name in os.listdir(folder or ".") if name.endswith((".dist-info", ".egg-info"))]
        except OSError:
            continue
        for name in names:
            place = Path(folder, name)
            try:
                offers = f"[{group}]" in (place / "entry_points.txt").read_text(encoding="utf-8", errors="replace")
            except OSError:
                continue
            package = name.partition("-")[0]
            if offers and package not in seen:  # the first package on the path is the imported one
                from importlib.metadata import Distribution

                seen.add(package)
                yield from Distribution.at(place).entry_points.select(group=group)


def _load(point: EntryPoint) -> None:
    """Register the item of an entry point, or record its fault, so that a faulty package stops no command."""
    module = point.value.partition(":")[0]
    package = point.dist.name if point.dist is not None else module
    MODULES[module.partition(".")[0]] = package
    try:
        register(point.load(), package)
    except PackageError as error:
        FAULTS.append(str(error))
    except Exception as error:  # a package can do anything wrong
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        FAULTS.append(
            f"package {package}: its method {point.name!r} cannot be imported ({reason}); pip install --upgrade "
            f"{package}, or pip uninstall {package}"
        )
