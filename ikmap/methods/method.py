"""What all methods have in common: maps to cells, learners and kernels are configured objects with a search space."""

from __future__ import annotations

from abc import ABC
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

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
        Ascending.
    least, most : number or None
        The ends beyond which there is nothing to try, such as the number of rows; None: there is no end.
    """

    values: tuple[Number, ...]
    least: Number | None = None
    most: Number | None = None


type SearchSpace = Mapping[str, Candidates]
"""By path of the field: "psi", "kernel.gamma". Of several fields, all combinations are tried."""


class Method(Configured, ABC):
    """Base of everything that a run can name: a configured object with a name and a search space.

    Attributes
    ----------
    about : About
        Name, title and modules of the class.
    """

    about: ClassVar[About]

    def search_space(
        self,
        searched: frozenset[str],
        n_rows: int,
        sample: Sample | None = None,
    ) -> SearchSpace:
        """Return what cross-validation tries of the fields that it is to choose.

        Parameters
        ----------
        searched : frozenset of str
            Paths of these fields. They are marked with :class:`~ikmap.methods.Searched`.
        n_rows : int
            Rows that cross-validation looks at.
        sample : Sample, optional
            These rows. Where the values have a unit that only the rows tell, they are multiples of it if there is no
            sample: which fields there are, and how many values, is the same.
        """
        return {}
