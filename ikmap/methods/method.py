"""The base of all methods: maps to cells, learners and kernels are configured objects with a search space."""

from __future__ import annotations

from abc import ABC
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from ikmap.methods.about import About
from ikmap.methods.fields import Configured

if TYPE_CHECKING:
    from ikmap.methods.sample import Sample

type Number = int | float


@dataclass(frozen=True)
class Candidates:
    """Values of one field that cross-validation tries.

    Attributes
    ----------
    values : tuple of numbers
        Values in ascending order.
    least, most : number or None
        Smallest and largest possible value, such as the number of rows; None: there is no limit.
    """

    values: tuple[Number, ...]
    least: Number | None = None
    most: Number | None = None


type SearchSpace = Mapping[str, Candidates]
"""Candidates by path of the field: "psi", "kernel.gamma". All combinations of several fields are tried."""


class InvalidValue(NamedTuple):
    """A value that a method cannot take, at a row and a column, from 0; `expected` says what it can take."""

    row: int
    column: int
    value: float
    expected: str


class Method(Configured, ABC):
    """Base of everything that a run can name: a configured object with a name and a search space.

    Attributes
    ----------
    about : About
        Description of the class.
    """

    about: ClassVar[About]

    def search_space(self, searched: frozenset[str], n_rows: int, sample: Sample | None = None) -> SearchSpace:
        """Return the candidates that cross-validation tries for the fields that it chooses.

        Parameters
        ----------
        searched : frozenset of str
            Paths of these fields, which are marked with :class:`~ikmap.methods.Searched`.
        n_rows : int
            Number of rows that cross-validation uses.
        sample : Sample, optional
            These rows. If the unit of the values follows from the rows, values without a sample are multiples of it;
            fields and numbers of values are the same.
        """
        return {}
