"""What decides the result of a run: the same parameters on the same data give the same bits."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Self

from ikmap.methods import LEARNERS, Learner, Map, Method, OptionError, method
from ikmap.methods.map import Value
from ikmap.methods.registry import known
from ikmap.methods.sharing import (
    chosen,
    map_for,
    options_of,
    refuse_unknown_tables,
    refuse_unknown_unit,
    shared_out,
    tasks_for,
    usual_learner,
)
from ikmap.tasks import AUTO, Task, TaskKind
from pipeline.errors import InputError


@dataclass(frozen=True, kw_only=True)
class Params:
    """Parameters of a batch run, apart from where the data is and on what it runs.

    Attributes
    ----------
    partitioner : str
        One of :data:`ikmap.methods.MAPS`, several with commas between (:mod:`ikmap.methods.composed`), or "auto": the
        usual one of the learners.
    learners : tuple of str
        Of :data:`ikmap.methods.LEARNERS`; or "auto" alone: the usual learner of the task, which may not be known until
        the labels have been read (:meth:`settled`).
    methods : mapping of str to mapping
        Options of the methods that the run uses, by their names: the learners and, if one of them is on cells, the
        partitioner. What is not given has its default; after that, every option is there. With the learner "auto", of
        all methods that the run may turn out to use.
    cv_rows : int
        Cross-validation looks at no more training rows than this.
    search : {"race", "full"}
        Whether cross-validation leaves out, after some folds, what will not be chosen any more (:mod:`ikmap.racing`).
    budget : float or None
        Seconds that it may take; part of what a run is, as two budgets may choose differently.
    order : {"shuffled", "file"}
        Of the online learners' pass over the rows.
    task : {"auto", "binary", "multiclass"}
    scale : {"none", "minmax"}
    select_by : str
        What cross-validation goes by: "auto", the usual criterion of the task, its figure, or one of its criteria.
    calibration : {"none", "platt", "isotonic"}
        How decisions become probabilities.
    threshold_for : str or None
        What the threshold of two classes is chosen for (:mod:`ikmap.tasks.classification.threshold`).
    split_by : str or None
        How rows are divided (:mod:`pipeline.rows.division`); None: at random.
    importance : bool
        Whether to find out which columns matter.
    seed : int
    shard_rows : int or None
        Rows in an object of the store. They change no result, but a run cannot go on with objects of another size.

    Raises
    ------
    InputError
        A method that is not there, or values that it cannot take.
    """

    partitioner: str = AUTO
    learners: tuple[str, ...] = (AUTO,)
    methods: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    cv_rows: int = 20_000
    search: str = "race"
    budget: float | None = None
    order: str = "shuffled"
    task: str = "auto"
    scale: str = "none"
    select_by: str = "auto"
    calibration: str = "none"
    threshold_for: str | None = None
    split_by: str | None = None
    importance: bool = False
    seed: int = 0
    shard_rows: int | None = None

    def __post_init__(self) -> None:
        if self.undecided:
            self._check_alternatives()
            return
        if self.partitioner == AUTO:
            object.__setattr__(self, "partitioner", map_for(self.learners))
        try:
            of = chosen(self.partitioner, self.learners, scoped=self.methods)
            found = options_of(of, self.methods)
        except OptionError as error:
            raise InputError(str(error)) from None
        searching = self.partitioner in found and self.map.given(found[self.partitioner]) is None
        try:
            for name, one in of.items():
                if isinstance(one, Learner):
                    found[name] = one.resolved(one.for_task(found[name], self.task), searching=searching)
            refuse_unknown_unit(of, found)
            refuse_unknown_tables(of)
        except OptionError as error:
            raise InputError(str(error)) from None
        object.__setattr__(self, "methods", {name: options.as_json() for name, options in found.items()})

    def _check_alternatives(self) -> None:
        """Complete the options of all methods that the run may turn out to use."""
        found: dict[str, dict[str, Any]] = {}
        try:
            for name, one in self._chosen().items():
                found[name] = one.Options(**self.methods.get(name, {})).as_json()
        except OptionError as error:
            raise InputError(str(error)) from None
        object.__setattr__(self, "methods", found)
        self.alternatives()

    def _chosen(self) -> dict[str, Method]:
        return chosen(self.partitioner, self.learners, scoped=self.methods, task=self.task)

    @property
    def undecided(self) -> bool:
        """Whether the learner follows from the task, which :meth:`settled` is told."""
        return self.learners == (AUTO,)

    def alternatives(self) -> list[Params]:
        """What these parameters may turn out to be, one for each possible task; themselves if nothing is open.

        Raises
        ------
        InputError
            None of the possible tasks can have these options.
        """
        if not self.undecided:
            return [self]
        found, errors = [], []
        for task in tasks_for(self.task):
            try:
                found.append(self.settled(task))
            except InputError as error:
                errors.append(error)
        if not found:
            raise errors[0]
        return found

    def settled(self, task: TaskKind) -> Params:
        """The parameters for a task that is known by now: "auto" becomes its usual learner, and the map of that.

        Raises
        ------
        InputError
            An option was given that the learner of this task does not have, or the task has no usual learner.
        """
        if not self.undecided:
            return self
        try:
            learners = (usual_learner(task),)
        except OptionError as error:
            raise InputError(str(error)) from None
        partitioner = map_for(learners) if self.partitioner == AUTO else self.partitioner
        used = chosen(partitioner, learners, scoped=self.methods)
        known = {key for name in used for key in self.methods.get(name, ())}
        for name, options in self.methods.items():
            specs = _known(name).Options.specs()
            for key, value in options.items():
                if key not in known and value != specs[key].default:
                    raise InputError(
                        f"{shlex.join(specs[key].words(value))}: found task {task.name}, whose usual learner is "
                        f"{learners[0]}, expected --learner {name}"
                    )
        methods = {name: self.methods[name] for name in used}
        return replace(self, partitioner=partitioner, learners=learners, methods=methods)

    @classmethod
    def given(
        cls,
        *,
        partitioner: str = AUTO,
        learners: Sequence[str] = (AUTO,),
        scoped: Mapping[str, Mapping[str, Any]] | None = None,
        **values: Any,
    ) -> Self:
        """Parameters from values by name alone, as on a command line: options of methods are those of all chosen ones.

        Parameters
        ----------
        scoped : mapping of str to mapping, optional
            Options of single methods, which win.

        Raises
        ------
        InputError
            An option that no chosen method has, or that they read differently.
        """
        own = {name: values.pop(name) for name in list(values) if name in cls.__dataclass_fields__}
        try:
            of = chosen(partitioner, learners, values, scoped, own.get("task", AUTO))
            methods = shared_out(of, values, scoped)
        except OptionError as error:
            raise InputError(str(error)) from None
        return cls(partitioner=partitioner, learners=tuple(learners), methods=methods, **own)

    def of(self, name: str) -> Any:
        """Options of a method: one of its ``Options``."""
        values = self.methods.get(name)
        if values is None:  # one that is cross-validated in place of one of the run's
            values = next(self.methods[other] for other in self.learners if LEARNERS[other].same_as == name)
        one = _known(name)
        options = one.Options.of_record(values)
        if not isinstance(one, Learner):
            return options
        return one.bound(options, {other: self.of(other) for other in one.uses(values)})

    def kernel(self, learner: str) -> str:
        """Name of the kernel on rows that a learner has; empty: it has none."""
        return next(iter(LEARNERS[learner].uses(self.methods[learner])), "")

    def compared_as(self, learner: str) -> str:
        """The learner that is cross-validated in place of this one: one with the very same decisions, or itself."""
        alone = LEARNERS[learner].same_as or learner
        alike = [name for name in self.learners if alone in (name, LEARNERS[name].same_as)]
        options = [method(alone).Options.of_record(self.methods[name]) for name in alike]
        return alone if all(other == options[0] for other in options) else learner

    def setting(self, name: str, **values: Any) -> Self:
        """The same with other values of a method's options."""
        return replace(self, methods={**self.methods, name: {**self.methods[name], **values}})

    @property
    def on_cells(self) -> bool:
        """Whether any learner works on cells."""
        return self.partitioner in self.methods

    @property
    def map(self) -> Map:
        """What makes the cells."""
        found = _known(self.partitioner)
        assert isinstance(found, Map)
        return found

    @property
    def map_options(self) -> Any:
        """Options of :attr:`map`."""
        return self.of(self.partitioner)

    def width(self, learner: str, n_rows: int) -> Value | None:
        """The value of the map for a learner on cells; None: cross-validation chooses it."""
        return LEARNERS[learner].width(self.of(learner), self.map, self.map_options, n_rows)

    def searches_for(self, learner: str, n_rows: int) -> bool:
        """Whether cross-validation chooses anything for a learner, or for the map for it."""
        one, options = LEARNERS[learner], self.of(learner)
        of_map = one.on == "cells" and self.width(learner, n_rows) is None
        return of_map or one.searches_C(options) or one.search(options, n_rows) is not None

    def searches_width(self, n_rows: int) -> bool:
        """Whether cross-validation chooses the value of the map for any learner."""
        on_cells = [name for name in self.learners if LEARNERS[name].on == "cells"]
        return any(self.width(name, n_rows) is None for name in on_cells)

    def judged(self, learner: str, task: Task) -> Task:
        """The task as the decisions of a learner are to be read."""
        return LEARNERS[learner].judged(self.of(learner), task)

    @property
    def t(self) -> int:
        """Number of partitionings."""
        return int(self.methods[self.partitioner]["t"])

    def plain(self) -> dict[str, Any]:
        """Options of the methods by name alone: one value where all that have it agree, else by method."""
        found: dict[str, dict[str, Any]] = {}
        for name, options in self.methods.items():
            for key, value in options.items():
                found.setdefault(key, {})[name] = value
        return {
            key: next(iter(of.values())) if len({repr(value) for value in of.values()}) == 1 else of
            for key, of in found.items()
        }

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "learners": list(self.learners)}


def _known(name: str) -> Method:
    """The method of that name, which a worker may lack though the client has it."""
    try:
        return method(name)
    except OptionError as error:
        raise InputError(str(error)) from None


def with_options_known_since(identity: Mapping[str, Any]) -> dict[str, Any]:
    """The identity of a run as it would be if it had been begun now: with parameters and options that are new since."""
    params = identity.get("params", {})
    of = params.get("methods", {})
    found = {name: known(name) for name in of}
    completed = {
        name: values if (one := found[name]) is None else {**one.Options.of_record(values).as_json(), **values}
        for name, values in of.items()
    }
    new = {name: field.default for name, field in Params.__dataclass_fields__.items() if name in NEW}
    return {**identity, "params": {**new, **params, "methods": completed}} if of else dict(identity)


NEW = frozenset({"select_by", "calibration", "threshold_for", "split_by", "importance"})
"""Parameters that runs of earlier versions do not name: they have the defaults."""
