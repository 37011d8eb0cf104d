"""The time that is left of a search."""

from __future__ import annotations

import pytest

from pipeline.stages.select_costs import GROWTHS, Costs


@pytest.mark.parametrize("growth", GROWTHS)
def test_costs_are_learned_from_what_is_done(growth: float) -> None:
    costs = Costs()
    assert costs.seconds([(4, 1)]) is None
    for psi in (4, 16, 64):
        costs.add([(psi, 2.0)], 3 * 2 * psi**growth)
    assert costs.seconds([(4096, 1), (1024, 5)]) == pytest.approx(3 * (4096**growth + 5 * 1024**growth))


def test_one_task_tells_of_others() -> None:
    costs = Costs()
    costs.add([(4, 2), (8, 2)], 10.0)
    assert costs.seconds([(4, 2), (8, 2)]) == pytest.approx(10)
    assert costs.seconds([(16, 2)]) == pytest.approx(5)
