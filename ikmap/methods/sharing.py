"""Which values of a command go to which of the methods that it has chosen."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ikmap.methods.composed import AND, TOTAL, Composed, names_of
from ikmap.methods.kernel import KERNELS, KernelMethod
from ikmap.methods.kinds import AnyOf, Integer, Kind, Real, differ_in_words
from ikmap.methods.learner import Learner
from ikmap.methods.learners import StreamLearner
from ikmap.methods.map import Map
from ikmap.methods.options import OptionError, Spec, one_of
from ikmap.methods.registry import LEARNERS, MAPS, Method, map_of, method, methods, plain_options
from ikmap.tasks import AUTO, TASKS

if TYPE_CHECKING:
    from ikmap.tasks import TaskKind

type Methods = Mapping[str, Method]
ROWS = 1000
"""Of a training set as any other: whether there is something to choose does not depend on its size."""


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


def chosen(
    partitioner: str,
    learners: Sequence[str],
    plain: Mapping[str, Any] | None = None,
    scoped: Mapping[str, Mapping[str, Any]] | None = None,
    task: str = AUTO,
) -> dict[str, Method]:
    """The methods that a run uses: what makes the cells, if one of its learners is on cells; learners; their kernels.

    Of the learner "auto" they are those that it may turn out to use (:func:`tasks_for`).

    Parameters
    ----------
    plain, scoped : mapping, optional
        Values of options, as of :func:`shared_out`: some name further methods.
    task : str
        The word of ``--task``.

    Raises
    ------
    OptionError
        There is no method of that name.
    """
    if tuple(learners) == (AUTO,):
        may_be = [chosen(partitioner, (one.usual.learner,), plain, scoped) for one in tasks_for(task)]
        return {name: one for each in may_be for name, one in each.items()}
    if partitioner == AUTO:
        partitioner = map_for(learners)
    of: dict[str, Method] = {}
    further: list[str] = []
    for name in learners:
        one = method(name)
        if not isinstance(one, Learner):
            kind = "map" if name in MAPS else "kernel"
            raise OptionError(f"--learner {name}: found a {kind}, expected one of {', '.join(LEARNERS)}")
        if one.on == "cells" and partitioner not in of:
            of = {partitioner: map_of(partitioner), **of}
        of[name] = one
        further += one.uses({**(plain or {}), **(scoped or {}).get(name, {})})
    return {**of, **{name: method(name) for name in further}}


def tasks_for(word: str) -> list[TaskKind]:
    """Tasks that a run with the learner "auto" may turn out to have, by the word of ``--task``.

    Raises
    ------
    OptionError
        The word names a task without a usual learner.
    """
    named = [task for task in TASKS.values() if word in (task.name, *task.words)] or list(TASKS.values())
    found = [task for task in named if task.usual.learner]
    if not found:
        usual_learner(named[0])
    return found


def usual_learner(task: TaskKind) -> str:
    """Name of the learner of a run with the learner "auto", once the task is known.

    Raises
    ------
    OptionError
        The task has none.
    """
    if not task.usual.learner:
        able = [name for name, one in LEARNERS.items() if task.name in one.tasks]
        raise OptionError(
            f"--learner auto: found task {task.name}, which has no usual learner, expected {one_of(able)}"
        )
    return task.usual.learner


def map_for(learners: Sequence[str]) -> str:
    """Name of the map of a run that names none: the first learner's usual one whose cells tell all learners enough."""
    on_cells = [LEARNERS[name] for name in learners if name in LEARNERS and LEARNERS[name].on == "cells"]
    usual = [one.usual_map for one in on_cells] or [Learner.usual_map]
    needed = set().union(*(one.tables for one in on_cells))
    return next((name for name in usual if MAPS[name].tables >= needed), usual[0])


def options_of(of: Methods, values: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The options of each of these methods, with these of them given; those of learners know those of their kernel."""
    found = {name: one.Options(**values.get(name, {})) for name, one in of.items()}
    return {
        name: one.bound(found[name], found) if isinstance(one, Learner) else found[name] for name, one in of.items()
    }


def refuse_growth(of: Methods, values: Mapping[str, Mapping[str, Any]]) -> None:
    """Refuse learners that cannot go on as a map of a stream gets more cells.

    Raises
    ------
    OptionError
    """
    for name, one in of.items():
        if isinstance(one, Map) and one.grows(one.Options(**values.get(name, {}))):
            able = [each.name for each in LEARNERS.values() if isinstance(each, StreamLearner) and each.grows]
            for learner in of.values():
                if isinstance(learner, Learner) and learner.on == "cells" and learner.name not in able:
                    raise OptionError(
                        f"--learner {learner.name}: found --partitioner {name}, whose cells become more as the stream "
                        f"runs; expected one of {', '.join(able)}, or another --partitioner"
                    )


def refuse_redraw(of: Methods, values: Mapping[str, Mapping[str, Any]]) -> None:
    """Refuse maps whose partitionings cannot be drawn anew along a stream, and learners that cannot go on then.

    Raises
    ------
    OptionError
    """
    carrying = [name for name, one in LEARNERS.items() if isinstance(one, StreamLearner) and one.carries]
    learners = [one for one in of.values() if isinstance(one, Learner)]
    if not any(one.on == "cells" for one in learners):
        raise OptionError(
            f"--on-drift redraw: found --learner {','.join(one.name for one in learners)}, which has no partitionings; "
            f"expected one of {', '.join(carrying)}"
        )
    for one in learners:
        if one.on == "cells" and one.name not in carrying:
            raise OptionError(
                f"--on-drift redraw: found --learner {one.name}, which cannot go on with other partitionings; expected "
                f"one of {', '.join(carrying)}"
            )
    for name, of_map in of.items():
        if not isinstance(of_map, Map):
            continue
        options = of_map.Options(**values.get(name, {}))
        if not of_map.redraws(options):
            able = ", ".join(each for each, other in MAPS.items() if other.redraws(other.Options()))
            why = "grow with the stream" if of_map.grows(options) else "do not depend on rows"
            raise OptionError(
                f"--on-drift redraw: found --partitioner {name}, whose partitionings {why}; expected one of {able}"
            )


def refuse_unknown_tables(of: Methods) -> None:
    """Refuse learners that need to know more of cells than the map of the run does.

    Raises
    ------
    OptionError
    """
    for one in of.values():
        if not isinstance(one, Learner) or not one.tables:
            continue
        map_name, of_map = next((name, other) for name, other in of.items() if isinstance(other, Map))
        if not of_map.tables.issuperset(one.tables):
            able = ", ".join(name for name, other in MAPS.items() if other.tables.issuperset(one.tables))
            raise OptionError(
                f"--learner {one.name}: needs the {one.tables[0]} of cells, which --partitioner {map_name} does not "
                f"have; expected --partitioner {able}"
            )


def refuse_unknown_unit(of: Methods, options: Mapping[str, Any]) -> None:
    """Refuse learners that take what a map has in place of a search, where only the rows tell the unit of its values.

    Parameters
    ----------
    options : mapping
        Of each method, one of its ``Options``.

    Raises
    ------
    OptionError
    """
    for name, one in of.items():
        if not isinstance(one, Map) or not one.in_units or one.given(options[name]) is not None:
            continue
        for learner in of.values():
            if not isinstance(learner, Learner) or learner.on != "cells":
                continue
            if learner.width(options[learner.name], one, options[name], ROWS) is not None:
                parameter = one.parameter(options[name])
                raise OptionError(
                    f"--{parameter} auto: found --learner {learner.name}, which has nothing to choose it by; expected "
                    f"a number, as --{parameter} 1"
                )


def searches_anything(of: Methods, values: Mapping[str, Mapping[str, Any]]) -> bool:
    """Whether cross-validation is to choose anything for these methods, with these of their options given."""
    options = options_of(of, values)
    searching = any(
        one.parameter(options[name]) and one.given(options[name]) is None
        for name, one in of.items()
        if not isinstance(one, KernelMethod | Map)
    )
    maps = [(one, options[name]) for name, one in of.items() if isinstance(one, Map)]
    of_map = any(
        one.width(options[name], *each, ROWS) is None
        for each in maps
        for name, one in of.items()
        if isinstance(one, Learner) and one.on == "cells"
    )
    searching = searching or of_map
    return searching or any(
        isinstance(one, Learner) and one.searches_C(one.resolved(options[name], searching=of_map))
        for name, one in of.items()
    )


def shared_out(
    names: Methods,
    plain: Mapping[str, Any],
    scoped: Mapping[str, Mapping[str, Any]] | None = None,
    program: Program | None = None,
) -> dict[str, dict[str, Any]]:
    """Options for each of the methods: plain ones go to all that have them, scoped ones to theirs.

    Parameters
    ----------
    names : mapping
        The methods that are chosen, by name.
    plain : mapping
        Values that are given by the name of the option alone.
    scoped : mapping of str to mapping, optional
        Values by the names of method and option.
    program : Program, optional
        The command, where it has not all learners.

    Raises
    ------
    OptionError
        An option that changes nothing, or that two of the methods read differently.
    """
    scoped = scoped or {}
    plain = {key: value for key, value in plain.items() if value is not None}
    together = [one for one in names.values() if isinstance(one, Composed)]
    names = {part: method(part) for name in names for part in names_of(name)}
    _refuse_own_share(together, scoped)
    everywhere, here = plain_options(methods()), plain_options(names)
    given: dict[str, dict[str, Any]] = {name: {} for name in names}
    for key, value in plain.items():
        if key not in everywhere:
            raise OptionError(f"{_flag(key)}: unknown option (--help-all lists all of them)")
        having = {name: spec for name, spec in here.get(key, {}).items() if key not in scoped.get(name, {})}
        _refuse_if_read_differently(key, value, having)
        for name, spec in having.items():
            if _takes(spec.kind, value) or not _only_a_word(key, value, everywhere):
                given[name][key] = value
    for name, values in scoped.items():
        _refuse_unchosen(name, values, names)
        given[name].update(values)
    options = {name: one.Options(**given[name]) for name, one in names.items()}
    for key, value in plain.items():
        used = any(key in given[name] and key not in options[name].unused for name in names)
        if not used and not any(key in of for of in scoped.values()):
            able = [name for name, spec in everywhere[key].items() if _takes(spec.kind, value) and name not in names]
            words = next(iter(everywhere[key].values())).words(value)
            if all(name in LEARNERS for name in able) and any(key in values for values in given.values()):
                able = []  # a chosen learner has it, but not with its other options: another one would not help
            raise OptionError(f"{shlex.join(words)}: {_who_uses(able, names, program)}")
    folded = {one.name: one.folded(given) for one in together}
    for one in together:
        one.Options(**folded[one.name])
        given = {name: values for name, values in given.items() if name not in names_of(one.name)}
    return {**folded, **given}


def _refuse_own_share(together: Sequence[Composed], scoped: Mapping[str, Mapping[str, Any]]) -> None:
    for one in together:
        for part in one.parts:
            if TOTAL in scoped.get(part.name, {}):
                raise OptionError(
                    f"--{part.name}.{TOTAL} {scoped[part.name][TOTAL]}: found --partitioner {one.name}, whose "
                    f"partitionings are shared out evenly; give their number as --{TOTAL}"
                )


def _flag(key: str) -> str:
    return "--" + key.replace("_", "-")


def _takes(kind: Kind, value: Any) -> bool:
    try:
        kind.check(value)
    except ValueError:
        return False
    return True


def _only_a_word(key: str, value: Any, everywhere: Mapping[str, Mapping[str, Spec]]) -> bool:
    """Whether a value is a word that stands for a number with some methods, such as auto: others keep their default."""
    kinds = [spec.kind for spec in everywhere[key].values()]
    return isinstance(value, str) and any(isinstance(kind, Integer | Real) and value in kind.words for kind in kinds)


def _refuse_if_read_differently(key: str, value: Any, having: Mapping[str, Spec]) -> None:
    if not having:
        return
    (one, first), *others = having.items()
    for other, spec in others:
        if spec.kind != first.kind and not differ_in_words(spec.kind, first.kind):
            kinds = AnyOf({one: first.kind, other: spec.kind})
            raise OptionError(
                f"{_flag(key)} {value}: found {one} and {other}, which read it differently ({kinds.expected}); give "
                f"--{one}.{key} and --{other}.{key}"
            )


def _refuse_unchosen(name: str, values: Mapping[str, Any], names: Methods) -> None:
    if name not in names:
        key, value = next(iter(values.items()), ("...", "..."))
        asked = "--partitioner" if name in MAPS else "--learner" if name in LEARNERS else "--kernel"
        hint = f"add {asked} {name}" if name in methods() else f"expected one of {', '.join(names)}"
        raise OptionError(f"--{name}.{key} {value}: found {' '.join(names)} chosen; {hint}")
    specs = names[name].Options.specs()
    for key, value in values.items():
        if key not in specs:
            raise OptionError(f"--{name}.{key}: unknown option; {name} has {', '.join(specs)}")
        try:
            specs[key].check(value)
        except ValueError as error:
            raise OptionError(f"--{name}.{key}: {error}") from None


def _who_uses(able: Sequence[str], names: Methods, program: Program | None) -> str:
    """What was chosen, and what else has an option that none of it uses."""
    maps, learners = [name for name in able if name in MAPS], [name for name in able if name in LEARNERS]
    used = AND.join(name for name in names if name in MAPS)
    kernels = [name for name in able if name in KERNELS]
    if kernels and (found := [name for name in names if name in KERNELS]):
        return f"found --kernel {' '.join(found)}, expected {one_of(kernels)}"
    if kernels:  # it is for want of a learner with a kernel that there is none
        learners += [name for name, one in LEARNERS.items() if one.uses({}) and name not in learners]
    if maps and not learners and used:
        return f"found --partitioner {used}, expected {one_of(maps)}"
    here = [name for name in learners if program is None or name in program.learners]
    if maps and used and here:
        return f"found --learner {_asked(names, program)}, expected {one_of(here)}, or --partitioner {one_of(maps)}"
    if maps:  # it is for want of a learner on cells that there is no map
        learners = [name for name, one in LEARNERS.items() if one.on == "cells" or name in learners]
    if not learners:
        return f"found {' '.join(names)}, which do not use it with the other options as they are; leave it out"
    here = [name for name in learners if program is None or name in program.learners]
    if program is not None and not here:
        return f"found {program.name}, expected {program.all_in} with {one_of(learners)}"
    return f"found --learner {_asked(names, program)}, expected {one_of(here)}"


def _asked(names: Methods, program: Program | None) -> str:
    """The learners of a run, as they were asked for where that is known."""
    return " ".join(name for name in names if name in LEARNERS) if program is None else program.asked
