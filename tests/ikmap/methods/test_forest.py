"""The memory of trees that are grown by labels."""

from __future__ import annotations

import pytest

from ikmap.methods.forest import PADDING, Forest
from ikmap.partitioners import draw_subsamples, rows_drawn


@pytest.mark.parametrize("psi", [1, 40, 200, 400])
def test_a_forest_fits_if_its_rows_do_whatever_the_seed(psi: int, monkeypatch: pytest.MonkeyPatch) -> None:
    n, t, d = 400, 5, 3
    forest, row_bytes = Forest(t=t, psi=psi), d + PADDING
    drawn = max(rows_drawn(draw_subsamples(n, t, psi, seed))[0].size for seed in range(30))
    monkeypatch.setattr("ikmap.methods.forest.MOST_BYTES", drawn * row_bytes - 1)
    assert not forest.fits(n, d)
    monkeypatch.setattr("ikmap.methods.forest.MOST_BYTES", min(n, t * psi) * row_bytes)
    assert forest.fits(n, d)


def test_trees_with_rows_in_common_fit_beyond_what_surely_fits() -> None:
    psi = Forest(t=300).largest_psi(2_000_000, 1000)
    assert psi < 4096
    assert Forest(t=300, psi=4096).fits(2_000_000, 1000)
    assert not Forest(t=300, psi=8192).fits(2_000_000, 1000)
