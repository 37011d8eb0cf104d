"""Checks that every method has to pass, ours and those of other packages: ``python -m ikmap.methods.checks NAME ...``.

They hold a method to what commands, search, streams and stores rely on: the same bits for any number of threads and
wherever rows are cut, checkpoints that go on as if nothing had happened, models that are plain arrays, options that are
described. They are to methods what ``sklearn.utils.estimator_checks`` is to estimators.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp

from ikmap.cells import Cells
from ikmap.learners.rows import Block
from ikmap.methods.anne import ANNE
from ikmap.methods.learner import Learner, Sample, Shape, StreamLearner, Training, WholeLearner
from ikmap.methods.map import Map, MapShape
from ikmap.methods.registry import FAULTS, import_models, method, methods
from ikmap.model import Model, from_parts
from ikmap.seeds import generator
from ikmap.tasks import TASKS, LearningTask
from ikmap.tasks.task import Asked

N, D, SEED = 90, 4, 7
"""Sizes and seed of the rows that methods are checked on."""


class CheckFailed(AssertionError):
    """A method does not do what all methods have to; the message says which one, what was found and expected."""


@dataclass(frozen=True)
class Check:
    """One thing that a method has to do."""

    method: str
    title: str
    run: Callable[[], None]

    def __str__(self) -> str:
        return f"{self.method}-{self.title.replace(' ', '_')}"


def checks_of(one: Map | Learner) -> Iterator[Check]:
    """Yield what a method has to do, each thing as a :class:`Check`: for ``pytest.mark.parametrize`` with ``ids=str``.

    Parameters
    ----------
    one : Map or Learner
        A method; it need not be registered.
    """
    import_models()

    def check(title: str, run: Callable[..., None], *args: Any) -> Check:
        return Check(one.name, title, partial(run, one, *args))

    yield check("options are described", _options)
    yield check("what is searched is an option and its values can be given", _searches)
    if isinstance(one, Map):
        yield check("memory grows with the rows", _memory_of_map)
        for dense in (True, False):
            kind = "dense" if dense else "sparse"
            yield check(f"cells of {kind} rows", _cells, dense)
            yield check(f"path over {kind} rows", _path, dense)
        yield check("the same cells for dense and sparse rows", _dense_is_sparse)
        return
    yield check("memory grows with the rows", _memory_of_learner)
    for title, task in _tasks(one):
        if isinstance(one, StreamLearner):
            yield check(f"stream of {title}", _stream, task)
            yield check(f"checkpoint on {title}", _checkpoint, task)
        elif isinstance(one, WholeLearner):
            yield check(f"fit to {title}", _whole, task)


def check_method(one: Map | Learner) -> list[str]:
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


# --- rows, targets and what is compared


def _rows(dense: bool = True, n: int = N) -> Any:
    """Rows with values of zero and above, as some kernels ask for, and more zeros where they are sparse."""
    rng = generator(SEED, int(dense))
    values = rng.random((n, D)).round(3)
    values[rng.random((n, D)) < 0.3] = 0.0
    return values if dense else sp.csr_array(values)


def _tasks(one: Learner) -> Iterator[tuple[str, LearningTask]]:
    """Tasks that the learner serves, as different labels make them."""
    for name in sorted(one.tasks):
        if name not in TASKS:
            raise CheckFailed(f"{one.name}: tasks has {name!r}, expected some of {', '.join(TASKS)}")
        kind = TASKS[name]
        for title, labels in _labels().items():
            try:
                _, found = kind.store(labels, labels.size)
                yield f"{name}, {title}", kind.find([found], Asked())
            except ValueError:
                continue  # labels that this task does not take


def _labels() -> dict[str, np.ndarray]:
    X = _rows()
    return {
        "two labels": (X.sum(axis=1) > 1.2).astype(float),
        "three labels": np.digitize(X.sum(axis=1), [1.0, 1.5]).astype(float),
        "numbers": X.sum(axis=1) + 0.25,
    }


def _targets(task: LearningTask) -> np.ndarray:
    """Targets of the rows, by labels that the task knows."""
    for labels in _labels().values():
        y = task.encode(labels, labels.size)
        if not task.unknown(y).any() and (not task.classes or np.unique(y).size == len(task.classes)):
            return y
    raise CheckFailed(f"found no targets of the task {task.name}")


def _same(found: Any, expected: Any, what: str) -> None:
    found, expected = np.asarray(found), np.asarray(expected)
    if found.shape != expected.shape:
        raise CheckFailed(f"{what}: found the shape {found.shape}, expected {expected.shape}")
    if not np.array_equal(found, expected, equal_nan=found.dtype.kind == "f"):
        place = tuple(map(int, np.argwhere(found != expected)[0]))
        raise CheckFailed(f"{what}: found {found[place]} at {place}, expected {expected[place]}")


def _true(holds: object, what: str) -> None:
    if not holds:
        raise CheckFailed(what)


def _json(values: Any, what: str) -> None:
    try:
        json.dumps(values, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise CheckFailed(f"{what}: found {error}, expected JSON values") from None


def _round_trip(model: Any) -> Any:
    """The model as a store gives it back."""
    _true(isinstance(model, Model), f"found a model that is {type(model).__name__}, expected an ikmap.model.Model")
    arrays, metadata = model.arrays(), model.metadata()
    for name, array in arrays.items():
        _true(array.dtype.kind in "biuf", f"array {name!r} of the model: found {array.dtype}, expected numbers")
    _json(metadata, "metadata of the model")
    again = from_parts(json.loads(json.dumps(metadata)), {name: array.copy() for name, array in arrays.items()})
    _true(again.content_hash == model.content_hash, "the model that a store gives back has another content hash")
    return again


# --- every method


def _options(one: Any) -> None:
    _true(one.name and one.name == one.name.lower(), f"name: found {one.name!r}, expected a word in lower case")
    _true(one.title, "title: found none, expected a few words for people")
    for name, spec in one.Options.specs().items():
        _true(spec.help.strip(), f"option {name!r}: found no help, expected what it does")
        spec.check(spec.default)
    one.Options()
    _true(not isinstance(one, Map) or one.about, "about: found none, expected half a sentence for the report")
    _json(one.Options().as_json(), "options")


def _searches(one: Any) -> None:
    options = _searching(one)
    search = one.search(options, N)
    if search is None:
        return
    _true(list(search.values) == sorted(set(search.values)), f"values of {search.option}: expected them to ascend")
    _true(search.option in one.Options.specs(), f"search of {search.option!r}: expected the name of an option")
    for value in search.values:
        given = one.given(options.replace(**{search.option: value}))
        _true(given == value, f"{search.option} = {value}: given() says {given}, expected the same")


def _searching(one: Any) -> Any:
    """Options with which there is something to choose, if there is anything."""
    options = one.Options()
    for name, spec in one.Options.specs().items():
        try:
            spec.check("auto")
        except ValueError:
            continue
        if one.search(options.replace(**{name: "auto"}), N) is not None:
            return options.replace(**{name: "auto"})
    return options


def _value(one: Any, options: Any) -> Any:
    """A small value for what is chosen or given for a method; None where there is nothing."""
    search = one.search(_searching(one), N)
    if search is not None:
        return search.values[min(2, len(search.values) - 1)]
    return one.given(options)


# --- maps


def _fitted(one: Map, dense: bool, seed: int = SEED, n_threads: int = 1, value: Any = None) -> Any:
    options = _small(one)
    X = _rows(dense)
    sample = Sample(N, D, None, X.__getitem__, seed)
    return one.fit(options, _value(one, options) if value is None else value, sample, n_threads)


def _small(one: Any) -> Any:
    """Options of few partitionings."""
    options = _searching(one)
    return options.replace(t=5) if "t" in one.Options.specs() else options


def _cells(one: Map, dense: bool) -> None:
    model, X, options = _fitted(one, dense), _rows(dense, N + 30), _small(one)
    offsets, value = model.offsets, _value(one, options)
    _true(model.n_partitions == options.t == offsets.size - 1, f"found {model.n_partitions} partitionings, expected t")
    _true(
        offsets.dtype == np.int64 and offsets[0] == 0 and (np.diff(offsets) > 0).all(), "offsets do not ascend from 0"
    )
    most = int(np.diff(offsets).max())
    _true(most <= one.n_cells(options, value), f"n_cells: found {one.n_cells(options, value)}, the map has {most}")
    codes = model.cells(X, 1).codes
    _true(codes.shape == (N + 30, options.t), f"cells: found the shape {codes.shape}, expected (rows, t)")
    _true(((codes >= -1) & (codes < np.diff(offsets))).all(), "cells: found some that are not there")
    _same(model.cells(X, 2).codes, codes, "cells by two threads")
    for k in (0, 17, N + 29):
        _same(model.cells(X[[k]], 1).codes[0], codes[k], f"cells of row {k} alone")
    _same(_fitted(one, dense, n_threads=2).cells(X, 1).codes, codes, "cells of a fit by two threads")
    _same(_round_trip(model).cells(X, 1).codes, codes, "cells of the model from a store")
    other = _fitted(one, dense, SEED + 1)
    _true(other.content_hash != model.content_hash, "another seed gives the same partitionings")


def _path(one: Map, dense: bool) -> None:
    options, X = _small(one), _rows(dense)
    search = one.search(options, N)
    if search is None:
        return
    values = [value for value in search.values if one.refused(options, value, N) is None][:4]
    found = list(one.path(options, values, SEED, X, [X, X[:9]]))
    _same([value for value, _ in found], values, "values of the path")
    for value, (whole, few) in found:
        model = _fitted(one, dense, value=value)
        _same(whole.codes, model.cells(X, 1).codes, f"cells of the path at {value}")
        _same(few.codes, whole.codes[:9], f"cells of few rows of the path at {value}")


def _dense_is_sparse(one: Map) -> None:
    model, X = _fitted(one, False), _rows(False)
    _same(model.cells(X.toarray(), 1).codes, model.cells(X, 1).codes, "cells of the same rows, not sparse")


def _memory_of_map(one: Map) -> None:
    options, before = _small(one), 0.0
    for n in (1_000, 100_000, 1_000_000):
        needed = sum(one.needed_bytes(options, _value(one, options), MapShape(n, D, 8.0 * D, True)))
        _true(needed >= before, f"needed_bytes: found {needed} of {n} rows, less than of fewer")
        before = needed


# --- learners


def _seen(one: Learner) -> tuple[Any, np.ndarray | None]:
    """What the learner learns from: cells and their offsets, or rows."""
    X = _rows()
    if one.on == "rows":
        return X, None
    options = ANNE.Options(t=5, psi=4)
    cells: Cells = ANNE.fit(options, 4, Sample(N, D, None, X.__getitem__, SEED)).cells(X, 1)
    return cells.packed(), cells.offsets


def _given(one: Any) -> tuple[Any, Any]:
    """Options, and the value of what would be chosen."""
    options = one.resolved(one.Options(), searching=False)
    return options, _value(one, options)


def _sample(rows: Any, offsets: np.ndarray | None, task: LearningTask) -> Sample:
    columns = D if offsets is None else offsets.size - 1
    return Sample(N, columns, task, rows.__getitem__, SEED, offsets)


def _memory_of_learner(one: Learner) -> None:
    options, before = _given(one)[0], 0
    for n in (1_000, 10_000, 100_000):
        needed = one.needed_bytes(options, Shape(n, 20, None, 1))
        _true(needed >= before, f"needed_bytes: found {needed} of {n} rows, less than of fewer")
        before = needed


def _stream(one: StreamLearner, task: LearningTask) -> None:
    rows, offsets = _seen(one)
    y = _targets(task)
    options, value = _given(one)
    sample = _sample(rows, offsets, task)

    def learned(cuts: Sequence[int], n_threads: int = 1) -> tuple[Any, np.ndarray]:
        state, predicted = one.start(options, value, sample, n_threads), []
        for start, stop in zip([0, *cuts], [*cuts, N], strict=True):
            predicted.append(np.asarray(state.partial_fit(rows[start:stop], y[start:stop]).predicted))
        return state, np.concatenate(predicted)

    whole, predicted = learned([])
    _true(whole.n_seen == N, f"n_seen: found {whole.n_seen}, expected {N}")
    decided = whole.decision_function(rows)
    _true(decided.shape == (N, task.outputs), f"decisions: found the shape {decided.shape}, expected (rows, outputs)")
    for cuts in ([1, 2, 3, 50], [64]):
        state, others = learned(cuts)
        _same(others, predicted, f"predictions while learning from pieces that begin at {cuts}")
        _same(state.decision_function(rows), decided, f"decisions after pieces that begin at {cuts}")
    _same(learned([40], 2)[0].decision_function(rows), decided, "decisions of two threads")
    first = one.start(options, value, sample, 1)
    _same(task.predict(first.decision_function(rows[:1])), predicted[:1], "prediction of the first row")
    _json(one.facts(whole), "facts")
    _json(int(whole.n_support), "n_support")
    model = whole.model(task.classes, {})
    given = _round_trip(model)
    _same(given.decision_function(rows), model.decision_function(rows), "decisions of the model from a store")
    _same(given.decision_function(rows[10:20]), given.decision_function(rows)[10:20], "decisions of some rows alone")


def _checkpoint(one: StreamLearner, task: LearningTask) -> None:
    rows, offsets = _seen(one)
    y = _targets(task)
    options, value = _given(one)
    sample = _sample(rows, offsets, task)
    state = one.start(options, value, sample, 1)
    state.partial_fit(rows[:37], y[:37])
    arrays = {name: np.array(array) for name, array in state.checkpoint().items()}
    for name, array in arrays.items():
        _true(array.dtype.kind in "biuf", f"array {name!r} of the checkpoint: found {array.dtype}, expected numbers")
    state.partial_fit(rows[37:], y[37:])
    again = one.start(options, value, sample, 1).restore(arrays)
    _true(again.n_seen == 37, f"n_seen of a restored state: found {again.n_seen}, expected 37")
    again.partial_fit(rows[37:], y[37:])
    for name, array in state.checkpoint().items():
        _same(again.checkpoint()[name], array, f"array {name!r} after going on from a checkpoint")
    _same(again.decision_function(rows), state.decision_function(rows), "decisions after going on from a checkpoint")


def _whole(one: WholeLearner, task: LearningTask) -> None:
    rows, _ = _seen(one)
    options, value = _given(one)
    block = Block(rows, _targets(task))
    model, facts = one.fit(options, Training(block, task.classes, SEED, value, 1, task=task))
    _json(facts, "facts")
    decided = model.decision_function(rows)
    _true(decided.shape == (N, task.outputs), f"decisions: found the shape {decided.shape}, expected (rows, outputs)")
    by_two, _ = one.fit(options, Training(block, task.classes, SEED, value, 2, task=task))
    _true(by_two.content_hash == model.content_hash, "a fit by two threads gives another model")
    given = _round_trip(model)
    _same(given.decision_function(rows), decided, "decisions of the model from a store")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
