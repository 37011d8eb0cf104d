"""Learners that go over all rows again and again: each round sums up something over the rows, on any worker."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ikmap.methods.learners import WholeLearner
from ikmap.methods.sample import Training

if TYPE_CHECKING:
    import numpy as np

    from ikmap.learners.rows import Block


class RoundsLearner(WholeLearner):
    """Learns in rounds: a state says what is to be summed up over all rows, and goes on with the sums.

    A run cuts the rows into pieces (:meth:`pieces`) and adds up the sums of the pieces in their order, whether all rows
    are in memory, in a file, or on many workers: the model has the same bits. A state has

    - ``order``: what is to be summed up next, which can be pickled; None once it is done;
    - ``absorb(sums)``, which goes on with the sums over all rows;
    - ``checkpoint()``: arrays by name, with which :meth:`restore` makes a state that goes on from there.
    """

    runner = "rounds"
    takes_weights = True

    def begin(self, options: Any, offsets: np.ndarray) -> Any:
        """State before the first round, for rows of cells with these offsets."""
        raise NotImplementedError

    def restore(self, options: Any, offsets: np.ndarray, arrays: Mapping[str, np.ndarray]) -> Any:
        """The state of which ``checkpoint`` made these arrays."""
        raise NotImplementedError

    def pieces(self, n_rows: int, offsets: np.ndarray) -> list[tuple[int, int]]:
        """Cut rows into consecutive pieces, by the sizes only."""
        raise NotImplementedError

    def held(self, block: Block) -> Sequence[Any]:
        """Some rows as :meth:`sums` takes them, in parts."""
        raise NotImplementedError

    def sums(self, order: Any, parts: Iterable[Any]) -> Any:
        """Sums over the rows of a piece, part after part, whose cuts change no bit; they add up by ``+=``."""
        raise NotImplementedError

    def finish(self, options: Any, state: Any, offsets: np.ndarray) -> tuple[Any, dict[str, Any]]:
        """Model, and what it has to say of itself: JSON values."""
        raise NotImplementedError

    def path(self, options: Any, training: Training, Cs: Sequence[float]) -> Iterator[Any]:
        """Models for ascending values of C, for cross-validation; the next one only when it is asked for."""
        raise NotImplementedError

    def resolved(self, options: Any, *, searching: bool) -> Any:
        return options if options.C is not None else options.replace(C="auto" if searching else 0.5)

    def searches_C(self, options: Any) -> bool:
        return bool(options.C == "auto")
