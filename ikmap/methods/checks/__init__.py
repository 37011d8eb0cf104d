"""Checks that every method has to pass, ours and those of other packages: ``python -m ikmap.methods.checks NAME ...``.

They hold a method to what commands, search, streams and stores rely on: the same bits for any number of threads and
wherever rows are cut, checkpoints that go on as if nothing had happened, models that are plain arrays, options that are
described. They are to methods what ``sklearn.utils.estimator_checks`` is to estimators.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from ikmap.methods.checks.common import Check, CheckFailed, N, json_values, searching, true
from ikmap.methods.checks.kernels import checks_of_kernel
from ikmap.methods.checks.learners import checks_of_learner
from ikmap.methods.checks.maps import checks_of_map
from ikmap.methods.kernel import KernelMethod
from ikmap.methods.learner import Learner
from ikmap.methods.map import Map
from ikmap.methods.registry import FAULTS, Method, import_models, method, methods
from ikmap.methods.reserved import reserved_among
from ikmap.methods.search import JOINED, numbers_of

__all__ = ["Check", "CheckFailed", "check_method", "checks_of", "main"]


def checks_of(one: Method) -> Iterator[Check]:
    """Yield what a method has to do, each thing as a :class:`Check`: for ``pytest.mark.parametrize`` with ``ids=str``.

    Parameters
    ----------
    one : Map, Learner or KernelMethod
        A method; it need not be registered.
    """
    import_models()
    of_kind: Iterator[tuple[str, Callable[[], None]]]
    match one:
        case Map():
            of_kind = checks_of_map(one)
        case Learner():
            of_kind = checks_of_learner(one)
        case KernelMethod():
            of_kind = checks_of_kernel(one)
    yield Check(one.name, "options are described", partial(_options, one))
    if not isinstance(one, KernelMethod):
        yield Check(one.name, "what is searched is an option and its values can be given", partial(_searches, one))
    for title, run in of_kind:
        yield Check(one.name, title, run)


def check_method(one: Method) -> list[str]:
    """Everything that is wrong with a method, a line each; an empty list where nothing is."""
    found: list[str] = []
    try:
        checks = list(checks_of(one))
    except CheckFailed as error:
        return [str(error)]
    for check in checks:
        try:
            check.run()
        except CheckFailed as error:
            found.append(f"{one.name}, {check.title}: {error}")
        except Exception as error:  # whatever a stranger's method does wrong
            found.append(f"{one.name}, {check.title}: {type(error).__name__}: {error}")
    return found


def main(names: Sequence[str]) -> int:
    """Check methods by name, all of them without a name; the status is 1 if anything is wrong."""
    wrong = list(FAULTS)
    for name in names or list(methods()):
        faults = check_method(method(name))
        wrong += faults
        print(f"{name}: {'passed' if not faults else f'{len(faults)} faults'}")
    print(*wrong, sep="\n", end="\n" if wrong else "")
    return 1 if wrong else 0


def _options(one: Any) -> None:
    true(one.name and one.name == one.name.lower(), f"name: found {one.name!r}, expected a word in lower case")
    true(one.title, "title: found none, expected a few words for people")
    for name, spec in one.Options.specs().items():
        true(spec.help.strip(), f"option {name!r}: found no help, expected what it does")
        spec.check(spec.default)
    taken = reserved_among(one.Options.specs())
    true(not taken, f"option {taken[:1]}: the commands use that name themselves, expected another one")
    one.Options()
    true(not isinstance(one, Map) or one.about, "about: found none, expected half a sentence for the report")
    json_values(one.Options().as_json(), "options")


def _searches(one: Any) -> None:
    options = searching(one)
    search = one.search(options, N)
    if search is None or (isinstance(one, Learner) and one.uses({})):  # then it is a kernel's, which is checked itself
        return
    true(list(search.values) == sorted(set(search.values)), f"values of {search.option}: expected them to ascend")
    for name in search.option.split(JOINED):
        true(name in one.Options.specs(), f"search of {name!r}: expected the name of an option")
    for value in search.values:
        given = one.given(options.replace(**numbers_of(search.option, value)))
        true(given == value, f"{search.option} = {value}: given() says {given}, expected the same")
