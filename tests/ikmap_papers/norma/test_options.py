"""What the options of NORMA with a kernel say: its kernel, what suits a task, and when rows can be dropped."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ikmap.kernels import kernel_as_dict
from ikmap.methods import FieldError, Sample, search_of
from ikmap.methods.gaussian import Gaussian
from ikmap.tasks import NOVELTY
from ikmap_papers.norma.norma_dual import NormaDual
from pipeline.errors import InputError
from pipeline.params import Params
from pipeline.resolve import flag
from pipeline.sources.datasets.registry import ResolvedDataset
from pipeline.stages.task import requested_task


def test_nothing_is_searched_for_novelty() -> None:
    asked = Params.given(learners=("norma-dual",), task="novelty", kernel="gaussian")
    dual = asked.of("norma-dual")
    assert isinstance(dual, NormaDual)
    assert search_of(dual, asked.searched("norma-dual"), 1000) is None
    X = np.random.default_rng(0).random((30, 4))
    sample = Sample(30, 4, NOVELTY.of(), X.__getitem__, 0)
    assert kernel_as_dict(dual.start(sample).kernel) == {"name": "gaussian", "gamma": 2.0}
    assert kernel_as_dict(dual.at({"kernel.gamma": 0.3}).start(sample).kernel)["gamma"] == 0.3
    assert kernel_as_dict(Gaussian(gamma=0.3).kernel(4))["gamma"] == 0.3
    laplacian = Params.given(learners=("norma-dual",), task="novelty").of("norma-dual")
    assert isinstance(laplacian, NormaDual)
    assert kernel_as_dict(laplacian.start(sample).kernel)["gamma"] == np.log(64) / 4
    wide = Params.given(learners=("norma-dual",), task="novelty", gamma="auto").of("norma-dual")
    assert isinstance(wide, NormaDual)
    assert kernel_as_dict(wide.start(sample).kernel)["gamma"] == 0.25  # the middle of what would be tried


def test_what_does_not_suit_the_task_of_a_data_set() -> None:
    data = ResolvedDataset(name="mine", train_url="mine.csv", task="regression")
    with pytest.raises(InputError, match=r"^--norma-dual\.loss nu: found task regression.* with task = .regression"):
        requested_task(Params.given(learners=("norma-dual",), loss="nu"), data)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"loss": "hinge", "regularization": 0.0}, "--loss hinge, truncation: found regularization 0"),
        ({"loss": "novelty"}, "--loss novelty, truncation: found steps that decrease"),
    ],
)
def test_rows_that_cannot_be_dropped(given: dict[str, Any], said: str) -> None:
    with pytest.raises(FieldError) as refused:
        NormaDual.of_record({"truncation": 0.1, **given})
    assert refused.value.worded(flag).startswith(said)
    assert NormaDual(truncation=0.1, loss="hinge", regularization=0.1).record()["truncation"] == 0.1
