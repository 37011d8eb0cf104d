"""Parameters that decide the result of a run: the same parameters on the same data give the same bits."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, field, fields, replace
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
from ikmap.methods.search import Search
from ikmap.methods.values import Value
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

type Options = Mapping[str, Any]
"""Values of options by name, which their kinds check."""
type Values = dict[str, Any]
"""A JSON object of parameters."""


@dataclass(frozen=True, kw_only=True)
class Params:
    """Parameters of a batch run, apart from where the data is and on what it runs.

    A new field needs a default with which a run has the result that it had without the field:
    :func:`completed_identity` gives it to the records of earlier versions.

    Attributes
    ----------
    partitioner : str
        One of :data:`ikmap.methods.MAPS`, several with commas between (:mod:`ikmap.methods.composed`), or "auto": the
        usual one of the learners.
    learners : tuple of str
        Names in :data:`ikmap.methods.LEARNERS`; or "auto" alone: the usual learner of the task, which may not be known
        until the labels have been read (:meth:`settled`).
    methods : mapping of str to mapping
        Options of the methods that the run uses, by their names: the learners and, if one of them is on cells, the
        partitioner. An option that is not given has its default; the parameters then have every option. With the
        learner "auto", it has all methods that the run may turn out to use.
    cv_rows : int
        Most training rows that cross-validation looks at.
    search : {"race", "full"}
        Whether cross-validation drops candidates, after some folds, that can no longer win (:mod:`ikmap.racing`).
    budget : float or None
        Most seconds of cross-validation; part of the identity of a run, as two budgets may choose differently.
    order : {"shuffled", "file"}
        Order of the online learners' pass over the rows.
    task : str
        A word of ``--task``.
    scale : {"none", "minmax"}
    select_by : str
        Criterion of cross-validation: "auto", the usual one of the task, its metric, or one of its criteria.
    calibration : {"none", "platt", "isotonic"}
        Kind of calibration, by which decisions become probabilities.
    threshold_for : str or None
        Aim for which the threshold of two classes is chosen (:mod:`ikmap.tasks.classification.threshold`).
    split_by : str or None
        Rule by which rows are split (:mod:`pipeline.rows.fitted_split`); None: at random.
    importance : bool
        Whether to measure the importance of columns.
    seed : int
    shard_rows : int or None
        Rows in an object of the store. They change no result, but a run cannot go on with objects of another size.

    Raises
    ------
    InputError
        There is no such method, or it cannot take some value.
    """

    partitioner: str = AUTO
    learners: tuple[str, ...] = (AUTO,)
    methods: Mapping[str, Options] = field(default_factory=dict)
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
        methods = configurations(names, self.methods)
        searching = self.partitioner in methods and bool(methods[self.partitioner].searched)
        records: dict[str, dict[str, object]] = {}
        with worded():
            for name, configuration in methods.items():
                records[name] = configuration.method.record(configuration.searched)
                if isinstance(configuration.method, Learner):
                    records[name] |= self._settled_C(name, searching)
                    settled = configuration.method.for_task(self.task)
                    if settled != configuration.method:
                        records[name] = (
                            {**settled.record(configuration.searched), "C": records[name]["C"]}
                            if ("C" in records[name])
                            else settled.record(configuration.searched)
                        )
                    methods[name] = Configuration(settled, configuration.searched)
        refuse_unknown_unit(methods)
        refuse_unknown_tables(methods)
        object.__setattr__(self, "methods", records)

    def _settled_C(self, name: str, searching: bool) -> dict[str, object]:
        """Return the C of a learner that was not given, which depends on whether its map is searched."""
        field = fields_by_name(name).get("C")
        if field is None or not field.follows_map or self.methods.get(name, {}).get("C") is not None:
            return {}
        return {"C": AUTO if searching else field.default}

    def _check_alternatives(self) -> None:
        """Complete the options of all methods that the run may turn out to use."""
        records: dict[str, dict[str, object]] = {}
        for name, configuration in configurations(self._chosen(), self.methods).items():
            record = configuration.method.record(configuration.searched)
            given = self.methods.get(name, {})
            undecided = {
                key: None for key, field in fields_by_name(name).items() if field.follows_map and given.get(key) is None
            }
            records[name] = {**record, **undecided}
        object.__setattr__(self, "methods", records)
        self.alternatives()

    def _chosen(self) -> tuple[str, ...]:
        return chosen(self.partitioner, self.learners, scoped=self.methods, task=self.task)

    def __getstate__(self) -> dict[str, object]:
        """Return the parameters alone: tasks carry records, and make objects of them where they run."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @property
    def undecided(self) -> bool:
        """True if the learner follows from the task, which is not known yet (:meth:`settled`)."""
        return self.learners == (AUTO,)

    def alternatives(self) -> list[Params]:
        """Return the parameters for each possible task, or these parameters alone if the learner is known.

        Raises
        ------
        InputError
            No possible task can have these options.
        """
        if not self.undecided:
            return [self]
        settled, errors = [], []
        for task in tasks_for(self.task):
            try:
                settled.append(self.settled(task))
            except InputError as error:
                errors.append(error)
        if not settled:
            raise errors[0]
        return settled

    @property
    def raced(self) -> bool:
        """True if a race is to choose map and learner: neither they nor options of methods are given."""
        return (
            self.undecided
            and self.partitioner == AUTO
            and all(
                value == fields_by_name(name)[key].recorded_default
                for name, record in self.methods.items()
                for key, value in record.items()
            )
        )

    def decided(self, learner: str, partitioner: str, options: Mapping[str, Options], scale: str) -> Params:
        """Return the parameters of the model that a race has chosen; options that only a race has are at default."""
        return replace(
            self,
            partitioner=partitioner or AUTO,
            learners=(learner,),
            methods=dict(options),
            scale=scale if self.scale == "none" else self.scale,
            cv_rows=Params.cv_rows,
            budget=None,
        )

    def settled(self, task: TaskKind) -> Params:
        """Return the parameters for a task: "auto" becomes its usual learner, and the usual map of the learner.

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
        scoped: Mapping[str, Options] | None = None,
        **values: Any,
    ) -> Self:
        """Return parameters from values by name alone, as on a command line: they go to all chosen methods.

        Parameters
        ----------
        scoped : mapping of str to mapping, optional
            Options of single methods, which take precedence.

        Raises
        ------
        InputError
            No chosen method has an option, or they read it differently.
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
        """Return a method with its configuration; a worker may lack the method though the client has it."""
        known = self._configurations
        if name not in known:
            record = self.methods.get(name)
            if record is None:  # a learner that is cross-validated in place of one of the run
                record = next(
                    self.methods[other] for other in self.learners if self.of(other).about.equivalent_to == name
                )
            with worded():
                configuration = Configuration(*configured(name, record))
                known[name] = with_kernel(configuration, record, self.methods) if "kernel" in record else configuration
        return known[name]

    def of(self, name: str) -> Learner:
        """Return a learner of the run with its configuration and kernel. Searched fields have their defaults."""
        method = self._configuration(name).method
        assert isinstance(method, Learner)
        return method

    def searched(self, name: str) -> frozenset[str]:
        """Return the paths of the fields of a method that cross-validation is to choose, such as "psi" and "C"."""
        return self._configuration(name).searched

    def learner(self, name: str, value: Value | Sequence[Number] | None = None, C: float | None = None) -> Learner:
        """Return a learner with the numbers that were chosen or given for :meth:`parameter`, and with a C."""
        method = at_value(self.of(name), self.searched(name) - {"C"}, value)
        return method if C is None else method.at({"C": C})

    def learner_as[K: Learner](
        self, kind: type[K], name: str, value: Value | Sequence[Number] | None = None, C: float | None = None
    ) -> K:
        """Return a learner that is known to be of a kind, as :meth:`learner` does."""
        method = capability(self.learner(name, value, C), kind)
        assert method is not None, (name, kind)
        return method

    def parameter(self, name: str) -> str:
        """Return the names of the numbers that are chosen or given for a learner beside C; empty if there are none."""
        return parameter_of(self.of(name), self.searched(name))

    def value(self, name: str) -> Value | None:
        """Return the numbers that are given for :meth:`parameter`; None: they are searched, or there are none."""
        method, searched = self.of(name), self.searched(name)
        paths = method.tunable(searched)
        return None if not paths or searched.intersection(paths) else value_of(method, searched)

    def kernel(self, learner: str) -> str:
        """Return the name of the kernel on rows that a learner has; empty: it has none."""
        return kernel_name(type(self.of(learner)), self.methods[learner])

    def compared_as(self, learner: str) -> str:
        """Return the learner that is cross-validated in place of a learner: one with the same decisions, or itself."""
        alone = self.of(learner).about.equivalent_to or learner
        alike = [name for name in self.learners if alone in (name, self.of(name).about.equivalent_to)]
        with worded():
            options = [configured(alone, self.methods[name]) for name in alike]
        return alone if all(other == options[0] for other in options) else learner

    def setting(self, name: str, **values: Any) -> Self:
        """Return the parameters with other values of a method's options."""
        return replace(self, methods={**self.methods, name: {**self.methods[name], **values}})

    @property
    def on_cells(self) -> bool:
        """True if any learner works on cells."""
        return self.partitioner in self.methods

    @property
    def map(self) -> Map:
        """Map that makes the cells. Searched fields have their defaults."""
        method = self._configuration(self.partitioner).method
        assert isinstance(method, Map)
        return method

    @property
    def map_searched(self) -> frozenset[str]:
        """Paths of the map's fields that are to be chosen."""
        return self.searched(self.partitioner)

    @property
    def map_parameter(self) -> str:
        """Names of the numbers that are chosen or given for the map, such as "psi"."""
        return parameter_of(self.map, self.map_searched)

    def map_at(self, value: Value | Sequence[Number] | None) -> Map:
        """Return the map with the numbers that were chosen or given for :attr:`map_parameter`."""
        return at_value(self.map, self.map_searched, value)

    def search_of_map(self, n_rows: int, sample: Sample | None = None) -> Search | None:
        """Return the first search of cross-validation on `n_rows` rows for the map; None: nothing to choose."""
        return search_of(self.map, self.map_searched, n_rows, sample)

    def search_of(self, learner: str, n_rows: int) -> Search | None:
        """Return the search of cross-validation on `n_rows` rows for a learner beside C; None: nothing to choose."""
        return search_of(self.of(learner), self.searched(learner) - {"C"}, n_rows)

    def map_value(self, learner: str, n_rows: int) -> Value | None:
        """Return the numbers of the map for a learner on cells; None: cross-validation chooses them."""
        searched, method = self.map_searched, self.of(learner)
        if not searched:
            return value_of(self.map, searched)
        if (psi := method.unsearched_psi(n_rows)) is None:
            return None
        unsearched = self.map.unsearched(searched, n_rows, psi)
        assert unsearched is not None
        return value_of(unsearched, searched)

    def searches_C(self, learner: str) -> bool:
        """Return whether cross-validation chooses the C of a learner."""
        return "C" in self.searched(learner) and "C" in fields_of(type(self.of(learner)))

    def searches_for(self, learner: str, n_rows: int) -> bool:
        """Return whether cross-validation chooses anything for a learner, or for the map for it."""
        method = self.of(learner)
        searches_map = method.about.on == "cells" and self.map_value(learner, n_rows) is None
        return searches_map or self.searches_C(learner) or bool(method.search_space(self.searched(learner), n_rows))

    def searches_map_value(self, n_rows: int) -> bool:
        """Return whether cross-validation chooses the numbers of the map for any learner."""
        on_cells = [name for name in self.learners if self.of(name).about.on == "cells"]
        return any(self.map_value(name, n_rows) is None for name in on_cells)

    def decision_task(self, learner: str, task: Task) -> Task:
        """Return the task that reads the decisions of a learner."""
        decides_otherwise = capability(self.of(learner), DecidesOtherwise)
        return task if decides_otherwise is None else decides_otherwise.decision_task(task)

    @property
    def t(self) -> int:
        """Number of partitionings."""
        return self.map.t

    def plain(self) -> Values:
        """Return options of the methods by name alone: one value where all that have it agree, else by method."""
        by_option: dict[str, Values] = {}
        for name, options in self.methods.items():
            for key, value in options.items():
                by_option.setdefault(key, {})[name] = value
        return {
            key: next(iter(by_method.values()))
            if len({repr(value) for value in by_method.values()}) == 1
            else by_method
            for key, by_method in by_option.items()
        }

    def as_json(self) -> Values:
        """Return the parameters as JSON values."""
        return {**asdict(self), "learners": list(self.learners)}


LACKED = ("data.table.missing_as_numbers",)
"""Entries of an identity that runs of earlier versions lack, though they were begun with the same options."""


def completed_identity(identity: Options) -> Values:
    """Return an identity with the options that it lacks, as newer versions would have recorded them."""
    params = identity.get("params", {})
    methods = params.get("methods", {})
    completed = {name: _completed(name, record) if is_known(name) else record for name, record in methods.items()}
    defaults = {field.name: field.default for field in fields(Params) if field.default is not MISSING}
    defaults["learners"] = list(Params.learners)
    if not methods:
        return dict(identity)
    added = {name: value for name, value in defaults.items() if name not in params}  # after what the run has named
    return {**identity, "params": {**params, "methods": completed, **added}}


def _completed(name: str, record: Mapping[str, object]) -> dict[str, object]:
    with worded():
        method, searched = configured(name, record)
    undecided = {key: None for key, field in fields_by_name(name).items() if field.follows_map and key not in record}
    return {**method.record(searched), **undecided, **record}
