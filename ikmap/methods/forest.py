"""Cells of trees that are grown by the labels of some rows: random forests and extremely randomized trees."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from annotated_types import Ge, Gt, Le

from ikmap.methods.about import MapAbout
from ikmap.methods.capabilities import DoesNotFit
from ikmap.methods.fields import Doc, Searched, Symbol
from ikmap.methods.map import PSI_DOC, Map, MapMemory, RowsInfo, T, points_drawn
from ikmap.methods.method import Candidates, SearchSpace
from ikmap.methods.sample import Sample

if TYPE_CHECKING:
    from ikmap.partitioners import Partitions

type MinLeaf = Annotated[
    int, Ge(1), Doc("least number of training rows in a leaf (default: 5 for forest, 20 for boosting)")
]
"""Least number of training rows in a leaf of a tree that is grown by labels."""
PSIS = (1024, 4096, 16384)
"""Numbers of rows of a tree that cross-validation tries."""
PADDING = 31
"""Most bytes that are added to the bins of a row: 1 less than WIDTH in :mod:`ikmap.partitioners._forest_loops`."""
MOST_BYTES = 1 << 30
"""Largest number of bytes of the bins of all drawn rows."""


class Forest(Map):
    """Trees that are grown by the labels of psi rows each, whose leaves are cells.

    In the leaves of a tree, the labels of the rows that grew it are more alike than the labels of other rows are. A
    learner on the cells sees both, so psi should be well below the number of training rows, or leaves should be large.
    Trees ignore the weights of rows.

    Attributes
    ----------
    psi : int
        Number of rows that a tree is grown on.
    splits : {"random", "best"}
    max_features : float
    max_depth : int or "none"
    min_leaf : int
    criterion : {"gini", "entropy"}
    """

    about: ClassVar[MapAbout] = MapAbout(
        name="forest",
        title="trees grown by labels",
        summary="a tree is grown on some training rows (ψ of them, see below) so that the labels in each leaf are "
        "alike, and a row belongs to the leaf that it falls into",
        sees_labels=True,
    )

    t: T = 300
    psi: Annotated[
        int,
        Ge(1),
        Doc(PSI_DOC),
        Searched(by_default=True),
        Symbol("ψ", "rows of a tree", "Trees of more rows have more and smaller cells."),
    ] = 4096
    splits: Annotated[
        Literal["random", "best"],
        Doc("splits of forest: the best of one random split of each column (random), or of all splits (best)"),
    ] = "random"
    max_features: Annotated[
        float, Gt(0.0), Le(1.0), Doc("share of the columns, drawn anew for each split of forest, that are compared")
    ] = 0.5
    max_depth: Annotated[
        int | Literal["none"], Ge(1), Doc("most splits above a leaf of forest: any number (none), or a number")
    ] = "none"
    min_leaf: MinLeaf = 5
    criterion: Annotated[
        Literal["gini", "entropy"],
        Doc("impurity of classes that splits of forest reduce; of numbers it is always the squared error"),
    ] = "gini"

    def search_space(self, searched: frozenset[str], n_rows: int, sample: Sample | None = None) -> SearchSpace:
        if "psi" not in searched:
            return {}
        fitting = tuple(psi for psi in PSIS if 2 * psi <= n_rows) or (max(1, n_rows // 2),)
        return {"psi": Candidates(fitting, 1, n_rows)}

    def largest_psi(self, n_rows: int, n_columns: int) -> int:
        """Return a psi, as large as may be, with which the bins of all drawn rows surely fit into a forest's memory."""
        row_bytes = n_columns + PADDING
        return n_rows if n_rows * row_bytes <= MOST_BYTES else max(1, MOST_BYTES // (self.t * row_bytes))

    def fits(self, n_rows: int, n_columns: int) -> bool:
        """Return whether the bins of all drawn rows fit into a forest's memory, except by a chance in a million.

        Fewer different rows may be drawn than with :meth:`largest_psi`, as trees have rows in common.
        """
        drawn = points_drawn(n_rows, self.t, self.psi)
        most = min(n_rows, self.t * self.psi, drawn + 5 * math.sqrt(drawn))
        return most * (n_columns + PADDING) <= MOST_BYTES

    def within(self, n_rows: int) -> Forest:
        return self if self.psi <= n_rows else self.at({"psi": max(1, n_rows)})

    def n_cells(self) -> int:
        most = max(1, self.psi // self.min_leaf)
        return most if self.max_depth == "none" else min(most, 1 << min(self.max_depth, 30))

    def fit(self, sample: Sample, n_threads: int = 1) -> Partitions:
        from ikmap.partitioners import draw_subsamples, rows_drawn
        from ikmap.partitioners.forest import Growth, fit_forest

        if sample.task is None or sample.targets is None:
            raise ValueError("forest: found no labels, expected rows with labels to grow its trees by")
        draws = draw_subsamples(sample.n_rows, self.t, self.psi, sample.seed)
        used, position = rows_drawn(draws)
        if used.size * (sample.n_columns + PADDING) > MOST_BYTES:
            raise DoesNotFit(
                f"{{partitioner}} forest: {used.size:,} rows of {sample.n_columns:,} columns have more than 1 GiB of "
                f"bins; give fewer {{t}} or a smaller {{psi}}, or {{partitioner}} iforest"
            )
        n_tried = max(1, round(self.max_features * sample.n_columns))
        growth = Growth(self.splits, n_tried, None if self.max_depth == "none" else self.max_depth, self.min_leaf)
        return fit_forest(
            sample.take(used),
            position,
            sample.targets(used),
            sample.seed,
            criterion=self.criterion if sample.n_classes else "squared",
            growth=growth,
            n_threads=n_threads,
        )

    def memory(self, rows: RowsInfo) -> MapMemory:
        drawn = points_drawn(rows.n, self.t, self.psi)
        nodes = 2.0 * self.t * max(1, self.psi // self.min_leaf) * 16
        # The nodes before those that are not used are left out; the drawn rows and their bins; the numbers of the rows.
        return MapMemory(nodes, nodes + drawn * (rows.row_bytes + rows.d + PADDING) + self.t * self.psi * 24.0)

    def plan_words(self, rows: RowsInfo) -> str:
        return f"psi = {self.psi}, about {points_drawn(rows.n, self.t, self.psi):,.0f} different rows"
