"""The eGMM kernel by two stages of random features, which its paper calls impractical."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar

from annotated_types import Ge, Le

from ikmap.methods.about import LearnerAbout
from ikmap.methods.fields import Doc
from ikmap.methods.fourier import Frequencies
from ikmap.methods.gmm import VALUES
from ikmap.methods.gmm import Le as Factor
from ikmap.methods.mapped import LinearOnMap
from ikmap.methods.method import Candidates, SearchSpace
from ikmap.methods.sample import Sample, Shape, Training

if TYPE_CHECKING:
    from ikmap.maps.two_stage import TwoStageMap


class TwoStageGMM(LinearOnMap):
    """Linear SVM on random Fourier features of weighted hashes.

    It is as impractical as the paper says. On spambase (``ikmap_papers/gmm/README.md``) 2048 features reach an
    accuracy of 89.4%, where as many Nystroem features of the same kernel reach 92.9%, and 128 of them 89.6%. Each
    frequency has a number for every code of every hash, 65,536 by default. For up to some thousand rows,
    ``kernel-svm`` with the kernel ``egmm`` is exact."""

    about: ClassVar[LearnerAbout] = LearnerAbout(
        name="two-stage-gmm",
        title="linear SVM on random Fourier features of weighted hashes",
        on="rows",
        models=("ikmap.learners.mapped_model", "ikmap.maps.two_stage"),
    )
    features: Frequencies = 50
    le: Factor = 10.0
    codes: Annotated[int, Ge(1), Doc("weighted hashes of the first stage of two-stage-gmm")] = 256
    code_bits: Annotated[int, Ge(1), Le(16), Doc("bits of each hash of two-stage-gmm")] = 8

    def search_space(self, searched: frozenset[str], n_rows: int, sample: Sample | None = None) -> SearchSpace:
        return {"le": Candidates(VALUES["le"])} if "le" in searched else {}

    def feature_map(self, training: Training) -> TwoStageMap:
        from ikmap.maps.two_stage import TwoStageMap

        columns = training.rows.shape[1]
        return TwoStageMap.draw(columns, self.le, self.codes, self.code_bits, self.features, training.seed)

    def memory(self, shape: Shape, rows: int | None = None) -> int:
        # Features while they are made, codes as CSR, frequencies while they are drawn and scaled, draws of the hashes.
        of_rows = 3 * 8 * 2 * self.features * shape.n + 20 * self.codes * shape.n
        return shape.rows_bytes + of_rows + 3 * 8 * self.features * (self.codes << self.code_bits) + 700 * 2 * shape.d
