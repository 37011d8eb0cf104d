"""Checks that every method, task and metric has to pass, ours and those of other packages.

The command is ``python -m ikmap.methods.checks NAME ...``. The checks of methods test the properties on which commands,
search, streams and stores rely: the same bits for any number of threads and any division of the rows, checkpoints that
continue exactly, models of plain arrays, options with descriptions. ``sklearn.utils.estimator_checks`` does the same
for estimators. The checks of tasks and metrics are in :mod:`ikmap.tasks.checks`.
"""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from ikmap.conformance import Check, CheckFailed, faults_of, json_values, member, true
from ikmap.methods.checks.common import N, configured_for_checks, rows_to_check, sample_of
from ikmap.methods.checks.kernels import checks_of_kernel
from ikmap.methods.checks.learners import checks_of_learner
from ikmap.methods.checks.maps import checks_of_map
from ikmap.methods.composed import Composed
from ikmap.methods.fields import FieldError, fields_of
from ikmap.methods.kernel import KernelMethod
from ikmap.methods.learner import Learner
from ikmap.methods.map import Map
from ikmap.methods.method import Method
from ikmap.methods.registry import FAULTS, LEARNERS, UnknownMethod, configured, import_models, methods
from ikmap.methods.reserved import reserved_among
from ikmap.tasks import METRICS, TASKS, TaskKind
from ikmap.tasks.checks import check_criterion, check_task

__all__ = ["Check", "CheckFailed", "check_method", "checks_of", "main"]


def checks_of(subject: type[Method] | Method) -> Iterator[Check]:
    """Yield the checks of a method, for ``pytest.mark.parametrize`` with ``ids=str``.

    Parameters
    ----------
    subject : class, or object of a class, of Map, Learner or KernelMethod
        A method; it need not be registered. A class is checked with the defaults of its fields.

    Raises
    ------
    CheckFailed
        The class lacks members, or no object can be made of it.
    """
    import_models()
    method, searched = configured_for_checks(subject)
    name = method.description.name if isinstance(method, Composed) else method.about.name
    checks: Iterator[tuple[str, Callable[[], None]]]
    match method:
        case Map():
            checks = checks_of_map(method, searched)
        case Learner():
            checks = checks_of_learner(method, searched)
        case KernelMethod():
            checks = checks_of_kernel(method)
        case _:
            raise CheckFailed(f"found {type(method).__name__}, expected a Map, a Learner or a KernelMethod")
    yield Check(name, "options are described", partial(_described, method, searched))
    yield Check(name, "what is searched is an option and its values can be given", partial(_searches, method, searched))
    for title, run in checks:
        yield Check(name, title, run)


def check_method(subject: type[Method] | Method) -> list[str]:
    """Return the faults of a method, a line each; the list is empty if there are none."""
    try:
        checks = list(checks_of(subject))
    except CheckFailed as error:
        return [str(error)]
    return faults_of(checks)


def check_named(name: str) -> list[str]:
    """Return the faults of the method, the task and the metric of a name, a line each.

    Raises
    ------
    UnknownMethod
        There is nothing of that name.
    FieldError
        The name is put together from methods that are no maps.
    """
    known_elsewhere = name in TASKS or name in METRICS
    faults: list[str] = []
    if name in methods() or not known_elsewhere:
        faults += check_method(methods()[name] if name in methods() else configured(name, {})[0])
    if name in TASKS:
        faults += check_task(TASKS[name]) + faults_of([Check(name, "usual learner", partial(_usual, TASKS[name]))])
    if name in METRICS:
        faults += check_criterion(METRICS[name])
    return faults


def main(words: Sequence[str] | None = None) -> int:
    """Run the checks as a command; return 1 if there are faults, else 0."""
    parser = ArgumentParser(
        prog="python -m ikmap.methods.checks",
        description="Check methods, tasks and metrics, ours and those of installed packages, and print a line for each "
        "fault, with class and member. The exit status is 1 if there are faults.",
    )
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help="name of a method (maps joined by commas too), a task or a metric (default: all of them)",
    )
    all_faults = list(FAULTS)
    for name in parser.parse_args(words).names or dict.fromkeys([*methods(), *TASKS, *METRICS]):
        try:
            faults = check_named(name)
        except (UnknownMethod, FieldError) as error:
            all_faults.append(str(error))
            continue
        all_faults += faults
        print(f"{name}: {'passed' if not faults else f'{len(faults)} faults'}")
    print(*all_faults, sep="\n", end="\n" if all_faults else "")
    return 1 if all_faults else 0


def _usual(kind: TaskKind) -> None:
    """Refuse a task whose usual learner is not known, or does not serve it."""
    with member(kind, "usual"):
        name = kind.usual.learner
        true(not name or name in LEARNERS, f"learner: found {name!r}, expected the name of a learner")
        serves = not name or kind.name in LEARNERS[name].about.tasks
        true(serves, f"learner: found {name!r}, expected a learner with {kind.name!r} in about.tasks")


def _described(method: Method, searched: frozenset[str]) -> None:
    for part in method.parts if isinstance(method, Composed) else (method,):
        with member(part, "about"):
            about = part.about
            true(
                about.name and about.name == about.name.lower(),
                f"name: found {about.name!r}, expected a word in lower case",
            )
            true(about.title, "title: found none, expected a few words for people")
            if isinstance(part, Map):
                true(part.about.summary, "summary: found none, expected half a sentence for the report")
        fields = fields_of(type(part))
        for name, field in fields.items():
            with member(part, name):
                true(field.doc.strip(), f"option {name!r}: found no Doc, expected what it does")
                true(not field.required, f"option {name!r}: found no default, expected one")
                field.check(field.default)
        taken = reserved_among(fields)
        true(not taken, f"option {taken[:1]}: the commands use that name themselves, expected another one")
    with member(method, "record"):
        json_values(method.record(searched), "options")


def _searches(method: Method, searched: frozenset[str]) -> None:
    with member(method, "tunable"):
        paths = method.tunable(searched)
        true(len(set(paths)) == len(paths), f"found {paths}, expected each field once")
        values = [method.value_at(path) for path in paths if path not in searched]
        true(all(isinstance(value, int | float) for value in values), f"found {values}, expected fields with numbers")
    with member(method, "search_space"):
        space = method.search_space(searched, N)
        for path, candidates in space.items():
            true(path in searched, f"found {path!r}, which is not searched")
            true(path in paths, f"found {path!r}, which tunable() does not name")
            ascending = sorted(set(candidates.values))
            true(ascending and list(candidates.values) == ascending, f"values of {path}: expected them to ascend")
            for value in candidates.values:
                given = method.at({path: value}).value_at(path)
                true(given == value, f"{path} = {value}: the field has {given}, expected the same")
        of_rows = method.search_space(searched, N, sample_of(method, rows_to_check()))
        sizes = {path: len(candidates.values) for path, candidates in space.items()}
        true(
            {path: len(candidates.values) for path, candidates in of_rows.items()} == sizes,
            "found other fields, or numbers of values, with a sample than without one",
        )
