"""The score of the isolation forest: rows that few cuts set apart are novel."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ikmap.methods.novelty_on_cells import NoveltyLearner
from ikmap.methods.sample import Sample

if TYPE_CHECKING:
    import numpy as np

    from ikmap.learners.rows import Block


class _IForestScore(NoveltyLearner):
    psi = 256
    tables = ("depth",)

    def count(self, options: Any, value: float | None, block: Block, sample: Sample) -> dict[str, np.ndarray]:
        import numpy as np

        return {"rows": np.array([block.y.size])}

    def scores(self, counts: dict[str, np.ndarray], sample: Sample) -> Any:
        from ikmap.learners.novelty.cell_scores import CellDepths
        from ikmap.learners.novelty.depths import average_path_length

        assert sample.offsets is not None
        t = sample.offsets.size - 1
        psi = sample.tables["points"].sum() / t
        return CellDepths(sample.tables["depth"], float(t * average_path_length(psi)) or 1.0, 1.0, self.name)


IFOREST_SCORE = _IForestScore(
    name="iforest-score", title="score of the isolation forest", on="cells", tasks=frozenset({"novelty"})
)
