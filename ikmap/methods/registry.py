"""All methods by name: ours, and those of packages that offer more under the entry point ``ikmap.methods``."""

from __future__ import annotations

import os
import sys
from collections.abc import Container, Iterable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from ikmap.methods.composed import AND, Composed, composed_of_record, fields_of_composed, names_of
from ikmap.methods.fields import Field, FieldError, fields_of
from ikmap.methods.kernel import KernelMethod
from ikmap.methods.learner import Learner
from ikmap.methods.map import Map
from ikmap.methods.method import Method
from ikmap.methods.reserved import reserved_among
from ikmap.tasks import METRICS, TASKS, Criterion, TaskKind, task_words
from ikmap.tasks import register as register_task

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "ikmap.methods"
"""Entry points of packages with more methods; each names the class of one: a map, a learner or a kernel."""

MAPS: dict[str, type[Map]] = {}
LEARNERS: dict[str, type[Learner]] = {}
KERNELS: dict[str, type[KernelMethod]] = {}
PACKAGES: dict[str, str] = {}
"""The package that a method comes from, by name; of ours there is none."""
MODULES: dict[str, str] = {}
"""The package that a module comes from, by its first name; of packages that offer methods, tasks or metrics."""
FAULTS: list[str] = []
"""What is wrong with packages that offer methods: a line each, that says what to type."""


class UnknownMethod(ValueError):
    """There is no method of a name here; one line says why, and what to do."""


def methods() -> dict[str, type[Method]]:
    """Return all methods: maps first."""
    return {**MAPS, **LEARNERS, **KERNELS}


def is_known(name: str) -> bool:
    """Return whether there is a method of that name, or of each part of it ("iforest,anne")."""
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

        why = "; ".join(FAULTS) or "install the package that has it on this machine too, with pip"
        raise UnknownMethod(f"method {name!r} is not known on {gethostname()}: {why}")
    return known[name]


def map_kinds(name: str) -> tuple[type[Map], ...]:
    """Return the classes of the maps that a partitioner of that name is put together from ("iforest,anne").

    Raises
    ------
    UnknownMethod
        There is none of that name.
    FieldError
        One of the names is that of another method.
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
    """Return the fields of the method of that name, or of the map put together from several."""
    return fields_of_composed(map_kinds(name)) if AND in name else fields_of(method(name))


def configured(name: str, record: Mapping[str, object]) -> tuple[Method, frozenset[str]]:
    """Return the method of that name that a record describes, and the paths of the fields that are searched.

    Raises
    ------
    UnknownMethod
        There is none of that name here: a worker may lack a package that the client has.
    FieldError
        A field cannot have its value.
    """
    if AND in name:
        return composed_of_record(map_kinds(name), record)
    return method(name).of_record(record)


def name_of(one: Method) -> str:
    """Return the name by which a method is registered; of a map put together from several, all of them."""
    return one.description.name if isinstance(one, Composed) else one.about.name


def register(one: type[Method] | TaskKind | type[TaskKind] | type[Criterion], package: str = "") -> None:
    """Make a method, a kind of task or a metric known.

    Raises
    ------
    PackageError
        Its name is taken, it is no class of a method, or one of its fields has a name that commands have themselves.
    """
    kind = one if isinstance(one, type) else type(one)
    if issubclass(kind, Criterion):
        _refuse_missing("metric", kind, ("metric",), package)
        _refuse_taken("metric", (kind.metric.key,), METRICS, package)
        register_task(kind)
        return
    if issubclass(kind, TaskKind):
        _refuse_missing("task", kind, ("name", "presenter"), package)
        _refuse_taken("task", (kind.name, *kind.words), {"auto", *task_words(), *TASKS}, package)
        register_task(one if isinstance(one, TaskKind) else kind)
        return
    if not isinstance(one, type) or not issubclass(one, Map | Learner | KernelMethod):
        found = one.__name__ if isinstance(one, type) else type(one).__name__
        raise PackageError(
            f"package {package}: found {found} in its entry point, expected a class of Map, Learner or KernelMethod of "
            f"ikmap.methods, or a TaskKind or a Criterion of ikmap.tasks; pip uninstall {package}, "
            "or mend it"
        )
    _refuse_missing("method", one, ("about",), package)
    name = one.about.name
    _refuse_taken("method", (name,), methods(), package)
    fields = fields_of(one)
    for field in fields.values() if package else ():
        _ = field.given_kind, field.doc  # of ours they are read once somebody asks for them
    if taken := reserved_among(fields):
        raise PackageError(
            f"package {package}: its method {name!r} has an option {taken[0]!r}, a name that the commands use "
            f"themselves; pip uninstall {package}, or give the option another name there"
        )
    if issubclass(one, Learner) and one.about.on == "cells":
        searched = [key for key, field in fields_of(one).items() if field.searched is not None and key != "C"]
        if searched:
            raise PackageError(
                f"package {package}: its learner {name!r} has the option {searched[0]!r} marked Searched, but of a "
                "learner on cells cross-validation chooses C and the values of the map alone; pip uninstall "
                f"{package}, or name the option C there"
            )
    if issubclass(one, Map):
        MAPS[name] = one
    elif issubclass(one, Learner):
        LEARNERS[name] = one
    else:
        KERNELS[name] = one
    if package:
        PACKAGES[name] = package


class PackageError(ValueError):
    """Something is wrong with a package that offers methods; one line says what to type."""


def _refuse_missing(what: str, kind: type, attributes: Iterable[str], package: str) -> None:
    """Refuse a class that lacks abstract methods, or attributes that have no default."""
    missing = sorted(getattr(kind, "__abstractmethods__", ())) + [
        name for name in attributes if not hasattr(kind, name)
    ]
    if missing:
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
    for module in {module for one in methods().values() for module in one.about.models}:
        import_module(module)


def load_packages() -> None:
    """Register the methods of other packages, once ours are registered."""
    for point in sorted(offered(GROUP), key=lambda point: (point.name, point.value)):
        _load(point)


def offered(group: str) -> Iterator[EntryPoint]:
    """Yield the entry points of installed packages in a group.

    importlib.metadata takes longer to import, and to look at all packages, than all of ``--help`` does otherwise: it
    is asked about those only whose file of entry points has the group. With ``IKMAP_PACKAGES=off`` in the environment
    there are none.
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
            if offers and package not in seen:  # the first on the path is what is imported
                from importlib.metadata import Distribution

                seen.add(package)
                yield from Distribution.at(place).entry_points.select(group=group)


def _load(point: EntryPoint) -> None:
    """Make what an entry point names known, or note why it cannot be: no command ends for a method it does not use."""
    module = point.value.partition(":")[0]
    package = point.dist.name if point.dist is not None else module
    MODULES[module.partition(".")[0]] = package
    try:
        register(point.load(), package)
    except PackageError as error:
        FAULTS.append(str(error))
    except Exception as error:  # whatever a stranger's package does wrong
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        FAULTS.append(
            f"package {package}: its method {point.name!r} cannot be imported ({reason}); pip install --upgrade "
            f"{package}, or pip uninstall {package}"
        )
