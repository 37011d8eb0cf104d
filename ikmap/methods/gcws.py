"""Cells of generalized consistent weighted sampling: two rows share a cell with the probability of their GMM kernel."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from annotated_types import Ge, Gt, Le

from ikmap.methods.about import MapAbout
from ikmap.methods.capabilities import Path
from ikmap.methods.fields import Advice, Doc, FieldError, Searched, Symbol
from ikmap.methods.map import Map, MapMemory, RowsInfo
from ikmap.methods.method import Candidates, Number, SearchSpace
from ikmap.methods.sample import Sample

if TYPE_CHECKING:
    from ikmap.cells import Cells
    from ikmap.partitioners import Partitions
    from ikmap.rows import Rows

PS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 40.0, 80.0)
"""Values of p to try: every second or third of the 27 values of the paper."""
BITS = (2, 4, 8, 12)
"""Values of b to try, those of the figures of the paper."""
MOST_BITS = 16
MOST_P = 1e6
"""Beyond it p ln(u) / r might leave the numbers that an int64 has."""


class GCWS(Map, Path):
    """Weighted minwise hashes: t codes of b bits each.

    Attributes
    ----------
    p : float
    b : int
    bits : int or None
        Bits of all codes of a row, which decide the number of codes.
    code : {"0-bit", "full"}
    gamma : int
    """

    about: ClassVar[MapAbout] = MapAbout(
        name="gcws",
        title="weighted hashes",
        summary="a random weighing is drawn for each column, and a row belongs to the cell of the value that weighs "
        "least",
        reaches_all=False,  # a row of zeros has no hash
        by_size=True,
    )

    p: Annotated[
        float,
        Gt(0),
        Doc("exponent of the values under the min-max kernel (default: 0.25); auto: by cross-validation"),
        Searched(),
        Symbol(
            "p",
            "exponent of the values",
            "With a small p only matters which values are zero; with a large one, only the largest values count.",
        ),
        Advice("give {p} 0.25, or {p} 1 for the kernel without an exponent"),
    ] = 0.25
    b: Annotated[
        int,
        Ge(1),
        Le(MOST_BITS),
        Doc("bits of a code: 2^b cells per partitioning (default: 8); auto: by cross-validation"),
        Searched(),
        Symbol("b", "bits of a code", "With few bits different values share a cell; with many there is more to learn."),
        Advice("give {b} 8"),
    ] = 8
    bits: Annotated[
        int | None,
        Ge(MOST_BITS),
        Doc(
            "bits of all codes of a row: there are bits / b codes then, whatever t is; with {b} auto it is found out "
            "whether many codes of few bits are better or few of many"
        ),
        Advice("give {bits} 4096"),
    ] = None
    code: Annotated[
        Literal["0-bit", "full"],
        Doc("what a code tells of the value that wins: its column (0-bit), or its size too (full): the exact kernel"),
    ] = "full"
    gamma: Annotated[
        int,
        Ge(1),
        Le(64),
        Doc(
            "whole exponent of the kernel: a code is made of so many hashes, which takes as many times longer "
            "(default: 1)"
        ),
        Advice("give {gamma} 2; only kernels such as {kernel} gamma-gmm have fractions"),
    ] = 1

    def check(self, searched: frozenset[str]) -> None:
        super().check(searched)
        if "p" not in searched and self.p > MOST_P:
            raise FieldError(
                "p",
                "a p whose codes would leave int64",
                f"at most {MOST_P:g}",
                value=self.p,
                instead="give {p} 80 to have only the largest values count",
            )

    def tunable(self, searched: frozenset[str]) -> tuple[str, ...]:
        return "p", "b"

    def search_space(self, searched: frozenset[str], n_rows: int, sample: Sample | None = None) -> SearchSpace:
        space = {"p": Candidates(PS, None, MOST_P), "b": Candidates(BITS, 1, MOST_BITS)}
        return {path: candidates for path, candidates in space.items() if path in searched}

    @property
    def n_partitions(self) -> int:
        return self.t if self.bits is None else self.bits // self.b

    def n_cells(self) -> int:
        return 1 << self.b

    def fit(self, sample: Sample, n_threads: int = 1) -> Partitions:
        return self._hashes(sample, self.n_partitions)

    def _hashes(self, sample: Sample, t: int) -> Partitions:
        from ikmap.partitioners.gcws import GCWSPartitions

        return GCWSPartitions(
            seed=sample.seed,
            t=t,
            p=self.p,
            b=self.b,
            gamma=self.gamma,
            full=self.code == "full",
            n_features=sample.n_columns,
        )

    @property
    def along(self) -> frozenset[str]:
        return frozenset({"b"})

    def path(
        self, values: Sequence[Mapping[str, Number]], sample: Sample, map_rows: Sequence[Rows], n_threads: int = 1
    ) -> Iterator[list[Cells]]:
        """Hash the rows once for each p: shorter codes are the upper bits of longer codes."""
        import numpy as np

        from ikmap.cells import Cells

        for _, group in groupby((self.at(fields) for fields in values), key=lambda choice: choice.p):
            maps = list(group)
            most_bits = maps[-1].b
            model = maps[-1]._hashes(sample, max(choice.n_partitions for choice in maps))
            hashes = [model.cells(rows, n_threads).codes for rows in map_rows]
            for choice in maps:
                t = choice.n_partitions
                offsets = np.arange(t + 1, dtype=np.int64) << choice.b
                # All bits of -1, which stands for no cell, are set, so that it stays -1.
                shorter = [np.ascontiguousarray(codes[:, :t] >> np.int32(most_bits - choice.b)) for codes in hashes]
                yield [Cells(codes, offsets) for codes in shorter]

    def memory(self, rows: RowsInfo) -> MapMemory:
        # Slots, values, logarithms and row starts of the non-zeros of a block; tables of the coordinates that occur.
        block = min(rows.n * rows.d, 1 << 20)
        return MapMemory(0.0, block * 28.0 + min(2 * rows.d, block) * 700.0)

    def plan_words(self, rows: RowsInfo) -> str:
        return f"p = {self.p:g}, b = {self.b}, {self.code} codes of {self.gamma} hashes each"
