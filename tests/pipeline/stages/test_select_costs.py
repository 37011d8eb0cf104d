"""The time that is left of a search."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from pipeline.stages.select_costs import GROWTHS, POOLINGS, Costs


@pytest.mark.parametrize("pooling", POOLINGS)
@pytest.mark.parametrize("growth", GROWTHS)
def test_costs_are_learned_from_what_is_done(growth: float, pooling: float) -> None:
    costs = Costs()
    assert costs.seconds([(4, 1)]) is None

    def seconds(work: Iterable[tuple[float, float]]) -> float:
        return float(3 * sum(psi**growth * amount for psi, amount in work) ** pooling)

    for done in ([(4, 2.0)], [(16, 2.0), (64, 7.0)], [(64, 1.0)], [(4, 1.0), (16, 1.0), (64, 1.0)]):
        costs.add(done, seconds(done))
    assert costs.seconds([(4096, 1), (1024, 5)]) == pytest.approx(seconds([(4096, 1), (1024, 5)]))


def test_one_task_tells_of_others() -> None:
    costs = Costs()
    costs.add([(4, 2), (8, 2)], 10.0)
    assert costs.seconds([(4, 2), (8, 2)]) == pytest.approx(10)
    assert costs.seconds([(16, 2)]) == pytest.approx(10 / 2**0.5)  # reading and searching are shared in part
