"""Where the value of a map says how many partitionings there are: from the search to the models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ikmap.model import Model
from pipeline.params import Params
from pipeline.runs.plan import DataSizes, make_plan
from pipeline.stages.cells import cells
from pipeline.stages.partition import partition
from pipeline.stages.select import select
from pipeline.storage.fitted import Fitted
from pipeline.storage.models import load_model
from pipeline.training.train import train
from tests.support.runs import context, points, store_rows


@pytest.mark.slow
@pytest.mark.parametrize("classes", [2, 3])
def test_a_row_has_as_many_codes_as_the_chosen_bits_leave_room_for(tmp_path: Path, classes: int) -> None:
    params = Params.given(partitioner="gcws", learners=["svm", "ogd"], bits=40, b="auto", p=1.0, t=3, C=1.0)
    ctx = context(tmp_path, params)
    store_rows(ctx.store, *points(150, classes=classes), rule="first", n_train=120, part_rows=50)
    told = select(ctx)
    for name, value in told["chosen"].items():
        assert isinstance(value, tuple)
        b = int(value[1])
        fitted = Fitted.of(partition(ctx, [value])["fitted"][0], t=0)
        assert fitted.t == 40 // b != 3
        cells(ctx, [fitted])
        arrays = ctx.store.open_arrays(fitted.cells_name("train"))
        assert arrays["codes"].shape == (120, fitted.t)
        record = train(ctx, name, fitted)
        model: Any = load_model(ctx.store, f"models/{name}", Model, record["content_hash"])
        assert model.coef.shape[0] == fitted.t << b
        if name == "svm":
            assert model.divisor == np.sqrt(fitted.t)


def test_a_plan_knows_of_them() -> None:
    sizes = DataSizes(rows_train=1000, rows_test=200, columns=5, nnz=0, outputs=1, dense=True)
    params = Params.given(partitioner="gcws", learners=["svm"], bits=4096, b=8, p=1.0, C=1.0)
    assert any("t = 512" in line for line in make_plan(params, (1.0, 8), sizes, 2).lines)
