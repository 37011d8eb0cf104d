"""What decides the result of a run: the same parameters on the same data give the same bits."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property
from typing import Any, Self

from ikmap.methods import (
    DecidesOtherwise,
    Learner,
    Map,
    Sample,
    at_value,
    capability,
    configured,
    fields_by_name,
    parameter_of,
    search_of,
    value_of,
)
from ikmap.methods.fields import fields_of
from ikmap.methods.method import Number
from ikmap.methods.registry import is_known
from ikmap.methods.search import Search, Value
from ikmap.tasks import AUTO, Task, TaskKind
from pipeline.errors import InputError
from pipeline.resolve import (
    Configuration,
    chosen,
    configurations,
    flag,
    kernel_name,
    map_for,
    refuse_unknown_tables,
    refuse_unknown_unit,
    shared_out,
    tasks_for,
    usual_learner,
    with_kernel,
    worded,
)


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
        How rows are divided (:mod:`pipeline.rows.fitted_split`); None: at random.
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
        names = chosen(self.partitioner, self.learners, scoped=self.methods)
        found = configurations(names, self.methods)
        searching = self.partitioner in found and bool(found[self.partitioner].searched)
        records: dict[str, dict[str, object]] = {}
        with worded():
            for name, one in found.items():
                records[name] = one.method.record(one.searched)
                if isinstance(one.method, Learner):
                    records[name] |= self._settled_C(name, searching)
                    settled = one.method.for_task(self.task)
                    if settled != one.method:
                        records[name] = (
                            {**settled.record(one.searched), "C": records[name]["C"]}
                            if ("C" in records[name])
                            else settled.record(one.searched)
                        )
                    found[name] = Configuration(settled, one.searched)
        refuse_unknown_unit(found)
        refuse_unknown_tables(found)
        object.__setattr__(self, "methods", records)

    def _settled_C(self, name: str, searching: bool) -> dict[str, object]:
        """Return what follows for the C of a learner that nobody gave, from whether its map is searched."""
        field = fields_by_name(name).get("C")
        if field is None or not field.follows_map or self.methods.get(name, {}).get("C") is not None:
            return {}
        return {"C": AUTO if searching else field.default}

    def _check_alternatives(self) -> None:
        """Complete the options of all methods that the run may turn out to use."""
        found: dict[str, dict[str, object]] = {}
        for name, one in configurations(self._chosen(), self.methods).items():
            record = one.method.record(one.searched)
            given = self.methods.get(name, {})
            undecided = {
                key: None for key, field in fields_by_name(name).items() if field.follows_map and given.get(key) is None
            }
            found[name] = {**record, **undecided}
        object.__setattr__(self, "methods", found)
        self.alternatives()

    def _chosen(self) -> tuple[str, ...]:
        return chosen(self.partitioner, self.learners, scoped=self.methods, task=self.task)

    def __getstate__(self) -> dict[str, object]:
        """Return the parameters alone: tasks carry records, and make objects of them where they run."""
        return {one.name: getattr(self, one.name) for one in fields(self)}

    @property
    def undecided(self) -> bool:
        """Whether the learner follows from the task, which :meth:`settled` is told."""
        return self.learners == (AUTO,)

    def alternatives(self) -> list[Params]:
        """Return what these parameters may turn out to be, one for each possible task; themselves if nothing is open.

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
        """Return the parameters for a task that is known by now: "auto" becomes its usual learner, and the map of that.

        Raises
        ------
        InputError
            An option was given that the learner of this task does not have, or the task has no usual learner.
        """
        if not self.undecided:
            return self
        learners = (usual_learner(task),)
        partitioner = map_for(learners) if self.partitioner == AUTO else self.partitioner
        used = chosen(partitioner, learners, scoped=self.methods)
        known = {key for name in used for key in self.methods.get(name, ())}
        for name, record in self.methods.items():
            options = fields_by_name(name)
            for key, value in record.items():
                if key not in known and value != options[key].recorded_default:
                    words = shlex.join(options[key].given_kind.written(flag(key), value))
                    raise InputError(
                        f"{words}: found task {task.name}, whose usual learner is {learners[0]}, expected --learner "
                        f"{name}"
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
        """Return parameters from values by name alone, as on a command line: they go to all chosen methods.

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
        names = chosen(partitioner, learners, values, scoped, own.get("task", AUTO))
        methods = shared_out(names, values, scoped)
        return cls(partitioner=partitioner, learners=tuple(learners), methods=methods, **own)

    # The methods, as configured objects

    @cached_property
    def _configurations(self) -> dict[str, Configuration]:
        return {}

    def _configuration(self, name: str) -> Configuration:
        """Return a method as it is configured; a worker may lack it though the client has it."""
        known = self._configurations
        if name not in known:
            record = self.methods.get(name)
            if record is None:  # one that is cross-validated in place of one of the run's
                record = next(
                    self.methods[other] for other in self.learners if self.of(other).about.equivalent_to == name
                )
            with worded():
                one = Configuration(*configured(name, record))
                known[name] = with_kernel(one, record, self.methods) if "kernel" in record else one
        return known[name]

    def of(self, name: str) -> Learner:
        """Return a learner of the run, as it is configured, with its kernel. Searched fields have their defaults."""
        found = self._configuration(name).method
        assert isinstance(found, Learner)
        return found

    def searched(self, name: str) -> frozenset[str]:
        """Return the paths of the fields of a method that cross-validation is to choose, such as "psi" and "C"."""
        return self._configuration(name).searched

    def learner(self, name: str, value: Value | Sequence[Number] | None = None, C: float | None = None) -> Learner:
        """Return a learner with the numbers that were chosen or given for :meth:`parameter`, and with a C."""
        found = at_value(self.of(name), self.searched(name) - {"C"}, value)
        return found if C is None else found.at({"C": C})

    def learner_as[K: Learner](
        self, kind: type[K], name: str, value: Value | Sequence[Number] | None = None, C: float | None = None
    ) -> K:
        """Return a learner that is known to be of a kind, as :meth:`learner` does."""
        found = capability(self.learner(name, value, C), kind)
        assert found is not None, (name, kind)
        return found

    def parameter(self, name: str) -> str:
        """Return the names of what is chosen or given for a learner beside C; empty if there is nothing."""
        return parameter_of(self.of(name), self.searched(name))

    def value(self, name: str) -> Value | None:
        """Return the numbers that are given for :meth:`parameter`; None: they are searched, or there are none."""
        one, searched = self.of(name), self.searched(name)
        paths = one.tunable(searched)
        return None if not paths or searched.intersection(paths) else value_of(one, searched)

    def kernel(self, learner: str) -> str:
        """Return the name of the kernel on rows that a learner has; empty: it has none."""
        return kernel_name(type(self.of(learner)), self.methods[learner])

    def compared_as(self, learner: str) -> str:
        """Return the learner that is cross-validated in place of this one: one with the very same decisions, or it."""
        alone = self.of(learner).about.equivalent_to or learner
        alike = [name for name in self.learners if alone in (name, self.of(name).about.equivalent_to)]
        with worded():
            options = [configured(alone, self.methods[name]) for name in alike]
        return alone if all(other == options[0] for other in options) else learner

    def setting(self, name: str, **values: Any) -> Self:
        """Return the same with other values of a method's options."""
        return replace(self, methods={**self.methods, name: {**self.methods[name], **values}})

    @property
    def on_cells(self) -> bool:
        """Whether any learner works on cells."""
        return self.partitioner in self.methods

    @property
    def map(self) -> Map:
        """The map that makes the cells. Searched fields have their defaults."""
        found = self._configuration(self.partitioner).method
        assert isinstance(found, Map)
        return found

    @property
    def map_searched(self) -> frozenset[str]:
        """Paths of the map's fields that are to be chosen."""
        return self.searched(self.partitioner)

    @property
    def map_parameter(self) -> str:
        """Names of what is chosen or given for the map, such as "psi"."""
        return parameter_of(self.map, self.map_searched)

    def map_at(self, value: Value | Sequence[Number] | None) -> Map:
        """Return the map with the numbers that were chosen or given for :attr:`map_parameter`."""
        return at_value(self.map, self.map_searched, value)

    def search_of_map(self, n_rows: int, sample: Sample | None = None) -> Search | None:
        """Return what cross-validation on so many rows tries first for the map; None: there is nothing to choose."""
        return search_of(self.map, self.map_searched, n_rows, sample)

    def search_of(self, learner: str, n_rows: int) -> Search | None:
        """Return what cross-validation on so many rows tries for a learner beside C; None: nothing."""
        return search_of(self.of(learner), self.searched(learner) - {"C"}, n_rows)

    def width(self, learner: str, n_rows: int) -> Value | None:
        """Return the numbers of the map for a learner on cells; None: cross-validation chooses them."""
        searched, one = self.map_searched, self.of(learner)
        if not searched:
            return value_of(self.map, searched)
        if (psi := one.unsearched_psi(n_rows)) is None:
            return None
        unsearched = self.map.unsearched(searched, n_rows, psi)
        assert unsearched is not None
        return value_of(unsearched, searched)

    def searches_C(self, learner: str) -> bool:
        """Return whether cross-validation chooses the C of a learner."""
        return "C" in self.searched(learner) and "C" in fields_of(type(self.of(learner)))

    def searches_for(self, learner: str, n_rows: int) -> bool:
        """Return whether cross-validation chooses anything for a learner, or for the map for it."""
        one = self.of(learner)
        of_map = one.about.on == "cells" and self.width(learner, n_rows) is None
        return of_map or self.searches_C(learner) or bool(one.search_space(self.searched(learner), n_rows))

    def searches_width(self, n_rows: int) -> bool:
        """Return whether cross-validation chooses the numbers of the map for any learner."""
        on_cells = [name for name in self.learners if self.of(name).about.on == "cells"]
        return any(self.width(name, n_rows) is None for name in on_cells)

    def decision_task(self, learner: str, task: Task) -> Task:
        """Return the task as the decisions of a learner are to be read."""
        one = capability(self.of(learner), DecidesOtherwise)
        return task if one is None else one.decision_task(task)

    @property
    def t(self) -> int:
        """Number of partitionings."""
        return self.map.t

    def plain(self) -> dict[str, Any]:
        """Return options of the methods by name alone: one value where all that have it agree, else by method."""
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


def with_options_known_since(identity: Mapping[str, Any]) -> dict[str, Any]:
    """Return the identity of a run as if it had been begun now: with parameters and options that are new since."""
    params = identity.get("params", {})
    of = params.get("methods", {})
    completed = {name: _completed(name, record) if is_known(name) else record for name, record in of.items()}
    new = {name: field.default for name, field in Params.__dataclass_fields__.items() if name in NEW}
    return {**identity, "params": {**new, **params, "methods": completed}} if of else dict(identity)


def _completed(name: str, record: Mapping[str, object]) -> dict[str, object]:
    with worded():
        one, searched = configured(name, record)
    undecided = {key: None for key, field in fields_by_name(name).items() if field.follows_map and key not in record}
    return {**one.record(searched), **undecided, **record}


NEW = frozenset({"select_by", "calibration", "threshold_for", "split_by", "importance"})
"""Parameters that runs of earlier versions do not name: they have the defaults."""
