"""Random hyperplanes (SimHash, Charikar 2002): which sides of b planes a row is on is its cell, t times."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar

from annotated_types import Ge, Le

from ikmap.methods import Candidates, Doc, Map, MapAbout, MapMemory, RowsInfo, Sample, Searched, SearchSpace

if TYPE_CHECKING:
    from ikmap_simhash.planes import Planes

PLANES = (2, 3, 4, 5, 6, 7, 8)


class SimHash(Map):
    """Sides of random planes. It has t, as all maps have it, and the number of planes."""

    about: ClassVar[MapAbout] = MapAbout(
        name="simhash",
        title="sides of random planes",
        summary="some random planes are drawn, and a row belongs to all rows that lie on the same sides of them",
        # Where the model is made known to whoever reads one from a store.
        models=("ikmap_simhash.planes",),
    )

    # Searched: cross-validation can choose it, and does where nothing is said.
    planes: Annotated[int, Ge(1), Le(16), Doc("planes of simhash: 2 ** planes cells"), Searched(by_default=True)] = 4

    def search_space(self, searched: frozenset[str], n_rows: int, sample: Sample | None = None) -> SearchSpace:
        return {"planes": Candidates(PLANES)} if "planes" in searched else {}

    def n_cells(self) -> int:
        return 2**self.planes

    def fit(self, sample: Sample, n_threads: int = 1) -> Planes:
        import numpy as np  # here, as --help loads this file

        from ikmap.seeds import generator
        from ikmap_simhash.planes import Planes

        # The planes go through the mean of at most 1,000 rows; each partitioning draws its own, from (seed, i).
        rows = sample.take(np.unique(np.linspace(0, sample.n_rows - 1, min(1000, sample.n_rows)).astype(int)))
        normals = [generator(sample.seed, i).normal(size=(sample.n_columns, self.planes)) for i in range(self.t)]
        return Planes(np.asarray(rows.mean(axis=0)).ravel(), np.concatenate(normals, axis=1), self.planes)

    def memory(self, rows: RowsInfo) -> MapMemory:
        return MapMemory(model=8.0 * rows.d * (self.t * self.planes + 1))
