"""Checks that every method has to pass, ours and those of other packages: ``python -m ikmap.methods.checks NAME ...``.

They test the properties on which commands, search, streams and stores rely: the same bits for any number of threads and
any division of the rows, checkpoints that continue exactly, models of plain arrays, options with descriptions.
``sklearn.utils.estimator_checks`` does the same for estimators.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from ikmap.methods.checks.common import (
    Check,
    CheckFailed,
    N,
    configured_for_checks,
    json_values,
    member,
    rows_to_check,
    sample_of,
    true,
)
from ikmap.methods.checks.kernels import checks_of_kernel
from ikmap.methods.checks.learners import checks_of_learner
from ikmap.methods.checks.maps import checks_of_map
from ikmap.methods.composed import Composed
from ikmap.methods.fields import FieldError, fields_of
from ikmap.methods.kernel import KernelMethod
from ikmap.methods.learner import Learner
from ikmap.methods.map import Map
from ikmap.methods.method import Method
from ikmap.methods.registry import FAULTS, UnknownMethod, configured, import_models, methods
from ikmap.methods.reserved import reserved_among

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
    faults: list[str] = []
    try:
        checks = list(checks_of(subject))
    except CheckFailed as error:
        return [str(error)]
    for check in checks:
        try:
            check.run()
        except CheckFailed as error:
            faults.append(f"{check.method}, {check.title}: {error}")
        except Exception as error:  # a method can do anything wrong
            faults.append(f"{check.method}, {check.title}: {type(error).__name__}: {error}")
    return faults


def main(names: Sequence[str]) -> int:
    """Check methods by name, or all methods; return 1 if there are faults, else 0."""
    all_faults = list(FAULTS)
    for name in names or list(methods()):
        try:
            subject = methods()[name] if name in methods() else configured(name, {})[0]
        except (UnknownMethod, FieldError) as error:
            all_faults.append(str(error))
            continue
        faults = check_method(subject)
        all_faults += faults
        print(f"{name}: {'passed' if not faults else f'{len(faults)} faults'}")
    print(*all_faults, sep="\n", end="\n" if all_faults else "")
    return 1 if all_faults else 0


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
        of_rows = method.search_space(searched, N, sample_of(rows_to_check()))
        sizes = {path: len(candidates.values) for path, candidates in space.items()}
        true(
            {path: len(candidates.values) for path, candidates in of_rows.items()} == sizes,
            "found other fields, or numbers of values, with a sample than without one",
        )
