"""Cells on a device: equal to those of the definition, on stand-ins for a GPU everywhere and on a GPU where there is one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ikmap.device import Device, Host
from ikmap.partitioners import draw_subsamples, fit_partitions
from ikmap.partitioners.voronoi import fit_voronoi
from ikmap.partitioners.voronoi.fused import Fused
from ikmap.partitioners.voronoi.products import Products
from tests.devices import Crowded, KernelsOnCpu, Strict
from tests.naive.partitioners import voronoi_cells
from tests.point_sets import DATA, LAYOUTS, queries_of

T, PSI = 5, 8
DEVICES = {"numpy": Host, "strict": Strict}


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> KernelsOnCpu:
    return KernelsOnCpu(tmp_path_factory.mktemp("kernels"))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", DATA)
def test_voronoi_cells_are_those_of_the_definition(name: str, device: str, layout: str) -> None:
    X, queries = DATA[name], queries_of(DATA[name])
    draws = draw_subsamples(X.shape[0], T, PSI, 3)
    mapper = fit_voronoi(LAYOUTS[layout](X), draws).mapper(DEVICES[device]())
    assert isinstance(mapper, Products)
    cells = mapper.cells(LAYOUTS[layout](queries))
    assert cells.codes.dtype == np.int32
    np.testing.assert_array_equal(cells.codes, voronoi_cells(queries, X, draws))


@pytest.mark.parametrize("name", DATA)
def test_the_kernel_gives_them(name: str, kernels: KernelsOnCpu) -> None:
    X, queries = DATA[name], queries_of(DATA[name])
    draws = draw_subsamples(X.shape[0], T, PSI, 4)
    mapper = fit_voronoi(X, draws).mapper(kernels)
    if not isinstance(mapper, Fused):
        assert isinstance(mapper, Products)
    np.testing.assert_array_equal(mapper.cells(queries).codes, voronoi_cells(queries, X, draws))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", DATA)
def test_iforest_cells(name: str, device: str, layout: str) -> None:
    X, queries = LAYOUTS[layout](DATA[name]), LAYOUTS[layout](queries_of(DATA[name]))
    model = fit_partitions(X, draw_subsamples(X.shape[0], T, PSI, 5), method="iforest", seed=5)
    np.testing.assert_array_equal(model.mapper(DEVICES[device]()).cells(queries).codes, model.cells(queries).codes)
