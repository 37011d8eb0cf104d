"""The isolation distributional kernel: how many training rows share the cells of a row."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from ikmap.methods.kinds import Real
from ikmap.methods.learners import StreamLearner
from ikmap.methods.novelty_on_cells import NoveltyLearner, NoveltyOptions
from ikmap.methods.options import MethodOptions, option
from ikmap.methods.sample import Sample

if TYPE_CHECKING:
    import numpy as np

    from ikmap.learners.rows import Block


ALERTS = "Share of alerts among the last 1000 rows or so, and that asked for"


class IDKOptions(NoveltyOptions):
    """Of the isolation distributional kernel."""

    half_life: float | str = option(
        "none",
        Real(0, words=("none",)),
        help="rows of a stream after which a row counts half in idk; none: all count alike, as in a batch run",
    )


class _IDK(NoveltyLearner, StreamLearner):  # type: ignore[misc]
    Options: ClassVar[type[MethodOptions]] = IDKOptions
    way: ClassVar[Literal["online", "batch"]] = "online"
    psi = 32
    rows_per_cell = 4
    usual_map = "inne"
    grows = True
    carries = True
    traced: ClassVar[Mapping[str, str]] = {
        "alert_rate": ALERTS,
        "asked": ALERTS,
        "similarity": "Similarity below which a row is novel",
    }
    asked_alerts: ClassVar[str] = "asked"

    def compiled(self, options: Any, *, scoring: bool = False) -> frozenset[str]:
        return super().compiled(options, scoring=scoring) | (set() if scoring else {"cell-masses", "fading-masses"})

    def count(self, options: Any, value: float | None, block: Block, sample: Sample) -> dict[str, np.ndarray]:
        import numpy as np

        from ikmap.learners.novelty.masses import add_rows

        assert sample.offsets is not None
        masses = np.zeros(int(sample.offsets[-1]))
        add_rows(block.rows, masses)  # type: ignore[arg-type]
        return {"masses": masses}

    def scores(self, counts: dict[str, np.ndarray], sample: Sample) -> Any:
        from ikmap.learners.novelty.cell_scores import CellMasses

        assert sample.offsets is not None
        t = sample.offsets.size - 1
        return CellMasses(counts["masses"], float(t * sample.n_rows), 1.0, self.name)

    def own_scores(self, model: Any, rows: Any, sample: Sample) -> np.ndarray:
        """Scores by the other rows: a new row is in none of the counts either."""
        import numpy as np

        own: Any = rows.n_partitions
        if not rows.complete:
            own = own - np.count_nonzero(rows.missing, axis=1)
        others = model.mean(rows) * model.divisor - own
        found: np.ndarray = 1.0 - others / (rows.n_partitions * max(1, sample.n_rows - 1))
        return found

    def start(self, options: Any, value: float | None, sample: Sample, n_threads: int = 1) -> Any:
        from ikmap.learners.novelty.fading import FadingMasses

        assert sample.offsets is not None
        half_life = None if options.half_life == "none" else float(options.half_life)
        return FadingMasses.start(sample.offsets, options.alert_rate, half_life, self.name)


IDK = _IDK(name="idk", title="isolation distributional kernel", on="cells", tasks=frozenset({"novelty"}))
