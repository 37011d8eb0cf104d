"""Random hyperplanes (SimHash, Charikar 2002): which sides of b planes a row is on is its cell, t times."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ikmap.methods import Map, Search, option
from ikmap.methods.kinds import Integer
from ikmap.methods.map import MapOptions

PLANES = (2, 3, 4, 5, 6, 7, 8)


class Options(MapOptions):
    """t, as all maps have it, and the number of planes."""

    planes: int | str = option(
        "auto", Integer(1, 16, words=("auto",)), group="Features", help="planes of simhash: 2 ** planes cells"
    )


@dataclass(frozen=True, kw_only=True)
class _SimHash(Map):
    Options = Options
    # Where the model is made known to whoever reads one from a store.
    models = ("ikmap_simhash.planes",)

    def parameter(self, options: Any) -> str:
        return "planes"

    def search(self, options: Any, n_rows: int, sample: Any = None) -> Search | None:
        return Search("planes", "planes", PLANES) if options.planes == "auto" else None

    def given(self, options: Any) -> int | None:
        return None if options.planes == "auto" else int(options.planes)

    def n_cells(self, options: Any, value: float) -> int:
        return 2 ** int(value)

    def fit(self, options: Any, value: float, sample: Any, n_threads: int = 1) -> Any:
        import numpy as np

        from ikmap.seeds import generator
        from ikmap_simhash.planes import Planes

        # The planes go through the mean of at most 1,000 rows; each partitioning draws its own, from (seed, i).
        rows = sample.take(np.unique(np.linspace(0, sample.n_rows - 1, min(1000, sample.n_rows)).astype(int)))
        normals = [generator(sample.seed, i).normal(size=(sample.n_columns, int(value))) for i in range(options.t)]
        return Planes(np.asarray(rows.mean(axis=0)).ravel(), np.concatenate(normals, axis=1), int(value))


SIMHASH = _SimHash(
    name="simhash",
    title="sides of random planes",
    about="some random planes are drawn, and a row belongs to all rows that lie on the same sides of them",
)
