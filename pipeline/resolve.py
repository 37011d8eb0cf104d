"""The meaning of the words of a command: which methods a run uses, and which values of a command go to which of them.

Methods are named, and their values are records (:data:`ikmap.methods.fields.Record`): objects are made of them where
they are used, so that a worker that lacks a package says so in one line.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from ikmap.methods import (
    KERNELS,
    LEARNERS,
    MAPS,
    Field,
    FieldError,
    Growable,
    Learner,
    LearnerAbout,
    Map,
    Method,
    OnKernel,
    Redrawable,
    StreamLearner,
    UnknownMethod,
    capability,
    configured,
    fields_by_name,
    method,
    methods,
)
from ikmap.methods import DoesNotFit as TooLarge
from ikmap.methods.composed import AND, TOTAL, names_of
from ikmap.methods.fields import AUTO, fields_of, with_options
from ikmap.methods.kinds import AnyOf, Integer, Kind, Real, differ_in_words
from ikmap.methods.registry import is_known, map_kinds
from ikmap.tasks import TASKS, TaskKind
from pipeline.errors import DoesNotFit, InputError

type Values = Mapping[str, object]
"""Values of fields, by name."""
ROWS = 1000
"""Rows of a training set that stands for any: whether there is something to choose does not depend on its size."""


@dataclass(frozen=True)
class Program:
    """A command that has not all learners.

    Attributes
    ----------
    name : str
    learners : frozenset of str
        Those that it has.
    all_in : str
        The command that has all of them.
    asked : str
        The learners of the run as they were asked for.
    """

    name: str
    learners: frozenset[str]
    all_in: str
    asked: str


def flag(name: str) -> str:
    """Return how a command line writes the option of that name."""
    return "--" + name.replace("_", "-")


@contextmanager
def worded() -> Iterator[None]:
    """Word the errors of fields, of names and of models that do not fit as those of a command line."""
    try:
        yield
    except FieldError as error:
        raise InputError(error.worded(flag)) from None
    except UnknownMethod as error:
        raise InputError(str(error)) from None
    except TooLarge as error:
        raise DoesNotFit(with_options(str(error), flag)) from None


@dataclass(frozen=True)
class Configuration:
    """A method of a run, as it is configured.

    Attributes
    ----------
    method : Method
    searched : frozenset of str
        Paths of the fields that cross-validation is to choose.
    """

    method: Method
    searched: frozenset[str]


def configurations(names: Sequence[str], records: Mapping[str, Values]) -> dict[str, Configuration]:
    """Return the methods of these names with these of their values; learners hold the kernel that they name.

    Raises
    ------
    InputError
    """
    with worded():
        found = {name: Configuration(*configured(name, records.get(name, {}))) for name in names}
        for name, one in found.items():
            if isinstance(one.method, OnKernel):
                found[name] = with_kernel(one, records.get(name, {}), records)
    return found


def with_kernel(one: Configuration, record: Values, records: Mapping[str, Values]) -> Configuration:
    """Return a learner that holds the kernel which its record names, and the paths of both that are searched."""
    assert isinstance(one.method, OnKernel)
    name = kernel_name(type(one.method), record)
    kernel, searched = method(name).of_record(records.get(name, {}))
    return Configuration(one.method.at({"kernel": kernel}), one.searched | {f"kernel.{path}" for path in searched})


def kernel_name(kind: type[Method], record: Values) -> str:
    """Return the name of the kernel that a learner has with these values; empty: it has none.

    Raises
    ------
    InputError
        There is no kernel of that name.
    """
    if not issubclass(kind, OnKernel):
        return ""
    field = fields_of(kind)["kernel"]
    default = field.default
    assert isinstance(default, Method)
    given = record.get("kernel")
    try:
        return str(field.kind.check(default.about.name if given is None else given))
    except ValueError as error:
        raise InputError(f"--kernel {given}: {error}") from None


def chosen(
    partitioner: str,
    learners: Sequence[str],
    plain: Values | None = None,
    scoped: Mapping[str, Values] | None = None,
    task: str = AUTO,
) -> tuple[str, ...]:
    """Return the names of the methods that a run uses: its map, if a learner is on cells; learners; their kernels.

    Of the learner "auto" they are those that it may turn out to use (:func:`tasks_for`).

    Parameters
    ----------
    plain, scoped : mapping, optional
        Values of options, as of :func:`shared_out`: some name further methods.
    task : str
        The word of ``--task``.

    Raises
    ------
    InputError
        There is no method of that name.
    """
    if tuple(learners) == (AUTO,):
        may_be = [chosen(partitioner, (one.usual.learner,), plain, scoped) for one in tasks_for(task)]
        return tuple(dict.fromkeys(name for each in may_be for name in each))
    if partitioner == AUTO:
        partitioner = map_for(learners)
    maps: list[str] = []
    found: list[str] = []
    further: list[str] = []
    with worded():
        for name in learners:
            kind = method(name)
            if not issubclass(kind, Learner):
                what = "map" if name in MAPS else "kernel"
                raise InputError(f"--learner {name}: found a {what}, expected one of {', '.join(LEARNERS)}")
            if kind.about.on == "cells" and not maps:
                map_kinds(partitioner)
                maps = [partitioner]
            found.append(name)
            further.append(kernel_name(kind, {**(plain or {}), **(scoped or {}).get(name, {})}))
    return tuple(dict.fromkeys([*maps, *found, *filter(None, further)]))


def tasks_for(word: str) -> list[TaskKind]:
    """Return the tasks that a run with the learner "auto" may turn out to have, by the word of ``--task``.

    Raises
    ------
    InputError
        The word names a task without a usual learner.
    """
    named = [task for task in TASKS.values() if word in (task.name, *task.words)] or list(TASKS.values())
    found = [task for task in named if task.usual.learner]
    if not found:
        usual_learner(named[0])
    return found


def usual_learner(task: TaskKind) -> str:
    """Return the name of the learner of a run with the learner "auto", once the task is known.

    Raises
    ------
    InputError
        The task has none.
    """
    if not task.usual.learner:
        able = [name for name, one in LEARNERS.items() if task.name in one.about.tasks]
        raise InputError(f"--learner auto: found task {task.name}, which has no usual learner, expected {one_of(able)}")
    return task.usual.learner


def map_for(learners: Sequence[str]) -> str:
    """Return the map of a run that names none: the first learner's usual one whose cells tell all learners enough."""
    on_cells = [LEARNERS[name].about for name in learners if name in LEARNERS and LEARNERS[name].about.on == "cells"]
    usual = [one.usual_map for one in on_cells] or [LearnerAbout.usual_map]
    needed = set().union(*(one.needs_tables for one in on_cells))
    return next((name for name in usual if MAPS[name].about.tables >= needed), usual[0])


def maps_among(of: Mapping[str, Configuration]) -> list[tuple[str, Map, frozenset[str]]]:
    """Return name, map and searched fields of the maps among some methods."""
    return [(name, one.method, one.searched) for name, one in of.items() if isinstance(one.method, Map)]


def learners_among(of: Mapping[str, Configuration]) -> list[tuple[str, Learner, frozenset[str]]]:
    """Return name, learner and searched fields of the learners among some methods."""
    return [(name, one.method, one.searched) for name, one in of.items() if isinstance(one.method, Learner)]


def refuse_growth(names: Sequence[str], values: Mapping[str, Values]) -> None:
    """Refuse learners that cannot go on as a map of a stream gets more cells.

    Raises
    ------
    InputError
    """
    of = configurations(names, values)
    for name, one, _ in maps_among(of):
        if capability(one, Growable) is None:
            continue
        able = [each for each, kind in LEARNERS.items() if issubclass(kind, StreamLearner) and kind.grows]
        for learner, other, _ in learners_among(of):
            if other.about.on == "cells" and learner not in able:
                raise InputError(
                    f"--learner {learner}: found --partitioner {name}, whose cells become more as the stream runs; "
                    f"expected one of {', '.join(able)}, or another --partitioner"
                )


def refuse_redraw(names: Sequence[str], values: Mapping[str, Values]) -> None:
    """Refuse maps whose partitionings cannot be drawn anew along a stream, and learners that cannot go on then.

    Raises
    ------
    InputError
    """
    carrying = [name for name, kind in LEARNERS.items() if issubclass(kind, StreamLearner) and kind.carries]
    of = configurations(names, values)
    learners = learners_among(of)
    if not any(one.about.on == "cells" for _, one, _ in learners):
        raise InputError(
            f"--on-drift redraw: found --learner {','.join(name for name, _, _ in learners)}, which has no "
            f"partitionings; expected one of {', '.join(carrying)}"
        )
    for name, one, _ in learners:
        if one.about.on == "cells" and name not in carrying:
            raise InputError(
                f"--on-drift redraw: found --learner {name}, which cannot go on with other partitionings; expected one "
                f"of {', '.join(carrying)}"
            )
    for name, of_map, _ in maps_among(of):
        if capability(of_map, Redrawable) is None:
            able = ", ".join(each for each, kind in MAPS.items() if capability(kind.of_record({})[0], Redrawable))
            by_labels = of_map.description.sees_labels
            alone = "are grown by labels of the first rows" if by_labels else "do not depend on rows"
            why = "grow with the stream" if capability(of_map, Growable) else alone
            raise InputError(
                f"--on-drift redraw: found --partitioner {name}, whose partitionings {why}; expected one of {able}"
            )


def refuse_unknown_tables(of: Mapping[str, Configuration]) -> None:
    """Refuse learners that need to know more of cells than the map of the run does.

    Raises
    ------
    InputError
    """
    for learner, one, _ in learners_among(of):
        needed = one.about.needs_tables
        for name, of_map, _ in maps_among(of):
            if not of_map.description.tables.issuperset(needed):
                able = ", ".join(each for each, kind in MAPS.items() if kind.about.tables.issuperset(needed))
                raise InputError(
                    f"--learner {learner}: needs the {needed[0]} of cells, which --partitioner {name} does not have; "
                    f"expected --partitioner {able}"
                )


def refuse_unknown_unit(of: Mapping[str, Configuration]) -> None:
    """Refuse learners that take what a map has in place of a search, where only the rows tell the unit of its values.

    Raises
    ------
    InputError
    """
    for _, of_map, searched in maps_among(of):
        if not searched or of_map.unsearched(searched, ROWS, 2) is not None:
            continue
        for name, one, _ in learners_among(of):
            if one.about.on == "cells" and one.unsearched_psi(ROWS) is not None:
                option = flag(of_map.field_at(min(searched)).name)
                raise InputError(
                    f"{option} auto: found --learner {name}, which has nothing to choose it by; expected a number, as "
                    f"{option} 1"
                )


def searches_map(of: Mapping[str, Configuration]) -> bool:
    """Return whether cross-validation is to choose anything of the map."""
    return any(
        bool(searched) and one.unsearched_psi(ROWS) is None
        for _, of_map, searched in maps_among(of)
        for _, one, _ in learners_among(of)
        if one.about.on == "cells"
    )


def searches_anything(names: Sequence[str], values: Mapping[str, Values]) -> bool:
    """Return whether cross-validation is to choose anything for these methods, with these of their values."""
    of = configurations(names, values)
    of_map = searches_map(of)
    return of_map or any(
        bool(one.search_space(searched, ROWS)) or searches_C(one, searched, values.get(name, {}), of_map)
        for name, one, searched in learners_among(of)
    )


def searches_C(one: Learner, searched: frozenset[str], record: Values, with_map: bool) -> bool:
    """Return whether the C of a learner is chosen, for its own sake or with the map."""
    field = fields_of(type(one)).get("C")
    if field is None or field.searched is None:
        return False
    return "C" in searched or (with_map and field.searched.with_map and record.get("C") is None)


def one_of(names: Sequence[str]) -> str:
    """Return what is expected where any of these would do."""
    return names[0] if len(names) == 1 else f"one of {', '.join(names)}"


def plain_fields(names: Sequence[str]) -> dict[str, dict[str, Field]]:
    """Return, for each option that any of these methods has, the field of each of them, by their names."""
    found: dict[str, dict[str, Field]] = {}
    for name in names:
        for key, field in fields_by_name(name).items():
            found.setdefault(key, {})[name] = field
    return found


def kind_of(field: Field) -> Kind:
    """Return what values may be given for a field; what to give instead is worded as for a command line."""
    kind = field.given_kind
    if not isinstance(kind, Integer | Real) or not kind.instead:
        return kind
    return replace(kind, instead=with_options(kind.instead, flag))


def shared_out(
    names: Sequence[str],
    plain: Values,
    scoped: Mapping[str, Values] | None = None,
    program: Program | None = None,
) -> dict[str, dict[str, object]]:
    """Return the values of each method: plain ones go to all that have the option, scoped ones to theirs.

    Parameters
    ----------
    names : sequence of str
        The methods that are chosen.
    plain : mapping
        Values that are given by the name of the option alone.
    scoped : mapping of str to mapping, optional
        Values by the names of method and option.
    program : Program, optional
        The command, where it has not all learners.

    Raises
    ------
    InputError
        An option that changes nothing, or that two of the methods read differently.
    """
    scoped = scoped or {}
    plain = {key: value for key, value in plain.items() if value is not None}
    together = [name for name in names if AND in name]
    single = [part for name in names for part in names_of(name)]
    _refuse_own_share(together, scoped)
    everywhere, here = plain_fields(list(methods())), plain_fields(single)
    given: dict[str, dict[str, object]] = {name: {} for name in single}
    for key, value in plain.items():
        if key not in everywhere:
            raise InputError(f"{flag(key)}: unknown option (--help-all lists all of them)")
        having = {name: field for name, field in here.get(key, {}).items() if key not in scoped.get(name, {})}
        _refuse_if_read_differently(key, value, having)
        for name, field in having.items():
            if _takes(kind_of(field), value) or not _only_a_word(key, value, everywhere):
                given[name][key] = value
    for name, values in scoped.items():
        _refuse_unchosen(name, values, single)
        given[name].update(values)
    of = configurations(single, given)
    for key, value in plain.items():
        used = any(key in given[name] and key not in one.method.ignored(one.searched) for name, one in of.items())
        if not used and not any(key in values for values in scoped.values()):
            able = [name for name, field in everywhere[key].items() if _takes(kind_of(field), value)]
            able = [name for name in able if name not in single]
            words = kind_of(next(iter(everywhere[key].values()))).written(flag(key), value)
            if all(name in LEARNERS for name in able) and any(key in values for values in given.values()):
                able = []  # a chosen learner has it, but not with its other options: another one would not help
            raise InputError(f"{shlex.join(words)}: {_who_uses(able, single, program)}")
    folded = {name: _folded(name, given) for name in together}
    configurations(together, folded)
    parts = {part for name in together for part in names_of(name)}
    return {**folded, **{name: values for name, values in given.items() if name not in parts}}


def _folded(name: str, given: Mapping[str, Values]) -> dict[str, object]:
    """Return the values of a map that is put together from several, from those that are given for each of them."""
    found: dict[str, object] = {}
    for part in names_of(name):
        for key, value in given[part].items():
            found[key if key == TOTAL else f"{part}.{key}"] = value
    return found


def _refuse_own_share(together: Sequence[str], scoped: Mapping[str, Values]) -> None:
    for name in together:
        for part in names_of(name):
            if TOTAL in scoped.get(part, {}):
                raise InputError(
                    f"--{part}.{TOTAL} {scoped[part][TOTAL]}: found --partitioner {name}, whose partitionings are "
                    f"shared out evenly; give their number as --{TOTAL}"
                )


def _takes(kind: Kind, value: object) -> bool:
    try:
        kind.check(value)
    except ValueError:
        return False
    return True


def _only_a_word(key: str, value: object, everywhere: Mapping[str, Mapping[str, Field]]) -> bool:
    """Return whether a value is a word that some methods take in place of a number: others keep their default."""
    kinds = [kind_of(field) for field in everywhere[key].values()]
    return isinstance(value, str) and any(isinstance(kind, Integer | Real) and value in kind.words for kind in kinds)


def _refuse_if_read_differently(key: str, value: object, having: Mapping[str, Field]) -> None:
    if not having:
        return
    (one, first), *others = having.items()
    for other, field in others:
        if kind_of(field) != kind_of(first) and not differ_in_words(kind_of(field), kind_of(first)):
            kinds = AnyOf({one: kind_of(first), other: kind_of(field)})
            raise InputError(
                f"{flag(key)} {value}: found {one} and {other}, which read it differently ({kinds.expected}); give "
                f"--{one}.{key} and --{other}.{key}"
            )


def _refuse_unchosen(name: str, values: Values, names: Sequence[str]) -> None:
    if name not in names:
        key, value = next(iter(values.items()), ("...", "..."))
        asked = "--partitioner" if name in MAPS else "--learner" if name in LEARNERS else "--kernel"
        hint = f"add {asked} {name}" if is_known(name) else f"expected one of {', '.join(names)}"
        raise InputError(f"--{name}.{key} {value}: found {' '.join(names)} chosen; {hint}")
    fields = fields_by_name(name)
    for key, value in values.items():
        if key not in fields:
            raise InputError(f"--{name}.{key}: unknown option; {name} has {', '.join(fields)}")
        try:
            kind_of(fields[key]).check(value)
        except ValueError as error:
            raise InputError(f"--{name}.{key}: {error}") from None


def _who_uses(able: Sequence[str], names: Sequence[str], program: Program | None) -> str:
    """Return what was chosen, and what else has an option that none of it uses."""
    maps, learners = [name for name in able if name in MAPS], [name for name in able if name in LEARNERS]
    used = AND.join(name for name in names if name in MAPS)
    kernels = [name for name in able if name in KERNELS]
    if kernels and (found := [name for name in names if name in KERNELS]):
        return f"found --kernel {' '.join(found)}, expected {one_of(kernels)}"
    if kernels:  # it is for want of a learner with a kernel that there is none
        learners += [name for name, kind in LEARNERS.items() if issubclass(kind, OnKernel) and name not in learners]
    if maps and not learners and used:
        return f"found --partitioner {used}, expected {one_of(maps)}"
    here = [name for name in learners if program is None or name in program.learners]
    if maps and used and here:
        return f"found --learner {_asked(names, program)}, expected {one_of(here)}, or --partitioner {one_of(maps)}"
    if maps:  # it is for want of a learner on cells that there is no map
        learners = [name for name, kind in LEARNERS.items() if kind.about.on == "cells" or name in learners]
    if not learners:
        return f"found {' '.join(names)}, which do not use it with the other options as they are; leave it out"
    here = [name for name in learners if program is None or name in program.learners]
    if program is not None and not here:
        return f"found {program.name}, expected {program.all_in} with {one_of(learners)}"
    return f"found --learner {_asked(names, program)}, expected {one_of(here)}"


def _asked(names: Sequence[str], program: Program | None) -> str:
    """Return the learners of a run, as they were asked for where that is known."""
    return " ".join(name for name in names if name in LEARNERS) if program is None else program.asked
