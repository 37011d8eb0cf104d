"""What a learner says of itself: name, options, what there is to choose, memory, and how it learns.

Everything that has to do with one learner stands in its object, in a file of this folder: commands, cross-validation,
plan, training and report ask the object and never its name. The objects import nothing heavy before they are used,
so that ``--help`` answers at once.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from ikmap.methods.options import MethodOptions

if TYPE_CHECKING:
    import numpy as np

    from ikmap.learners.rows import Block
    from ikmap.methods.map import Map, Value
    from ikmap.splits import CellSplit, Swept
    from ikmap.tasks import Task
from ikmap.methods.sample import Shape, Training
from ikmap.methods.search import Search


@dataclass(frozen=True, kw_only=True)
class Learner:
    """Base of all learners.

    In all methods, ``options`` is one of its :attr:`Options`, and ``value`` is what was chosen or given for
    :meth:`parameter`.

    Attributes
    ----------
    name : str
        For ``--learner``, and in a store.
    title : str
        For people.
    on : {"cells", "rows"}
        Works on the cells of the run's partitioner, or on the rows themselves.
    Options : type
        What it can be told.
    same_as : str or None
        A learner with the very same decisions, cross-validated in its place.
    tasks : frozenset of str
        Names of the tasks that it serves (:data:`ikmap.tasks.TASKS`).
    way : {"online", "batch"}
        Learns from one row after the other, or from all at once.
    models : tuple of str
        Modules of the kinds of models that it makes: a process that reads one has to import them.
    runner : {"stream", "dual", "whole", "counts", "rounds"}
        What trains it: one pass with checkpoints; the solvers of linear problems on cells; one task that has all rows;
        tasks that count blocks of rows, and one that adds up; rounds of sums over all rows.
    working_set : bool
        It keeps kernel values of as many rows as it turns out to need: :meth:`needed_bytes` is then the least that
        training takes, unless it is told how many rows these are.
    takes_weights : bool
        It heeds the weights of rows (``Block.sample_weight``). One that does not is refused for a task whose rows weigh
        differently; :meth:`weighs` says whether it heeds those that the data has.
    told : mapping of str to mapping
        What it has to say of itself in ``learners.NAME`` of ``metrics.json``, beside what its runner says: the JSON
        Schema of each field.
    loops : tuple of str
        Modules of compiled loops of its own, outside `ikmap`; those within it are found by their names.
    usual_map : str
        Of one on cells: the map that it gets where none is named.
    tables : tuple of str
        What it needs to know of cells beside their numbers (:attr:`ikmap.methods.Map.tables`).
    """

    name: str
    title: str
    on: Literal["cells", "rows"]
    same_as: str | None = None
    tasks: frozenset[str] = frozenset({"classification"})

    Options: ClassVar[type[MethodOptions]]
    way: ClassVar[Literal["online", "batch"]]
    runner: ClassVar[Literal["stream", "dual", "whole", "counts", "rounds"]]
    models: ClassVar[tuple[str, ...]] = ("ikmap.learners.linear_model",)
    working_set: ClassVar[bool] = False
    takes_weights: ClassVar[bool] = False
    told: ClassVar[Mapping[str, Mapping[str, Any]]] = MappingProxyType({})
    loops: ClassVar[tuple[str, ...]] = ()
    usual_map: ClassVar[str] = "iforest"
    tables: ClassVar[tuple[str, ...]] = ()

    def compiled(self, options: Any, *, scoring: bool = False) -> frozenset[str]:
        """Words by which loops say who needs them (:mod:`ikmap._compiled`): to learn, or to score with its model."""
        if scoring:
            return frozenset({"cells-online"} if self.on == "cells" else ())
        return frozenset({self.name, f"{self.on}-{self.way}", *(self.same_as or "").split()})

    def for_task(self, options: Any, task: str) -> Any:
        """The options with what follows from the task, as far as its name, or "auto", says before a label was seen."""
        return options

    def unsuited(self, options: Any, task: str) -> str | None:
        """What is wrong with the options for a task, in a line that says what was found and expected."""
        return None

    def resolved(self, options: Any, *, searching: bool) -> Any:
        """The options with what follows from those of the map: `searching`, whether its own is to be chosen."""
        return options

    def uses(self, values: Mapping[str, Any]) -> tuple[str, ...]:
        """Names of further methods that a run with it has, beside the map, with these of its options given."""
        return ()

    def bound(self, options: Any, others: Mapping[str, Any]) -> Any:
        """The options with those of the methods that it uses, which `others` has by name."""
        return options

    def parameter(self, options: Any) -> str | None:
        """Name of the number that is chosen or given for it, beside C; None: there is none, or it is the map's."""
        return None

    def search(self, options: Any, n_rows: int) -> Search | None:
        """What cross-validation on so many rows is to choose for it, beside C."""
        return None

    def given(self, options: Any) -> float | None:
        """What the options say of :meth:`parameter`, where it is not searched."""
        return None

    def width(self, options: Any, of_map: Map, map_options: Any, n_rows: int) -> Value | None:
        """The value of its map, such as psi, on so many training rows; None: cross-validation chooses it.

        Whether it does is the same for any number of rows.
        """
        return of_map.given(map_options)

    def searches_C(self, options: Any) -> bool:
        """Whether cross-validation is to choose C."""
        return False

    def sharing(self, options: Any, value: Any) -> Hashable | None:
        """Values of which this is the same share what takes long: cross-validation hands them to one task.

        None: it shares nothing with any other.
        """
        return None

    def share(self, options: Any, value: Any, learned: Any, tested: Any) -> tuple[Any, Any, Any]:
        """Do what values share, of which this is one: options and rows to take in place of those given.

        What is learned from them and predicted for them is the same, to the bit.
        """
        return options, learned, tested

    def sweeps(self, options: Any) -> bool:
        """Whether it finds the value of its map by :meth:`sweep`, where that is to be chosen, instead of by a grid.

        That takes a map that tells how its cells split (:meth:`ikmap.methods.Map.sweeps`).
        """
        return False

    def sweep(self, options: Any, training: Training, held_out: Block, splits: Iterator[CellSplit]) -> Iterator[Swept]:
        """Follow the splits of the map's cells, and say after each how good what was learned by then is.

        Parameters
        ----------
        training, held_out
            What to learn from and what to predict, with the cells before the first split: sets 0 and 1 of the rows of
            each split. Some classes may be missing in either.

        Where its C is to be chosen too, it is told one of the values to try.

        Yields
        ------
        Swept
            After a split, or several: how good it is at the value of the last one.
        """
        raise NotImplementedError

    def needed_bytes(self, options: Any, shape: Shape) -> int:
        """Memory that training takes in a worker, beside what every task has."""
        return 0

    def weigh(self, options: Any, task: Task, targets: np.ndarray) -> np.ndarray | None:
        """How much training rows with these targets count: as the task says, or otherwise.

        As of :meth:`~ikmap.tasks.capabilities.WeighsRows`: block by block, None where all weigh the same.
        """
        from ikmap.tasks.capabilities import sample_weight

        return sample_weight(task, targets)

    def weighs(self, options: Any, task: str) -> bool:
        """Whether it heeds what the data says that training rows weigh (``--weight``), in a task of that name.

        Then weights that are whole numbers are as good as rows that stand there as often. The state of a
        :class:`~ikmap.methods.StreamLearner` takes them as ``partial_fit(rows, y, sample_weight)``.
        """
        return self.takes_weights

    def judged(self, options: Any, task: Task) -> Task:
        """The task as this learner's decisions are to be read, where they say more than one prediction a row."""
        return task

    def log_odds(self, options: Any) -> bool:
        """Whether decisions are log odds of the classes, so that they are probabilities without a calibration."""
        return False

    def refused(self, rows: Any) -> tuple[int, int, float, str] | None:
        """Row, column (from 0), value and what is expected in its place, of the first value that it cannot take.

        What its kernel cannot take, the kernel refuses.
        """
        return None
