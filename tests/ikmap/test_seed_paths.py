"""The first numbers of the paths of random generators."""

from __future__ import annotations

from ikmap import seed_paths

MOST_PARTITIONINGS = 1_000_000


def test_no_two_are_the_same_but_for_those_that_results_were_recorded_with() -> None:
    names: dict[int, set[str]] = {}
    for name, number in vars(seed_paths).items():
        if isinstance(number, int):
            names.setdefault(number, set()).add(name)
    assert len(names) > 10
    assert [shared for shared in names.values() if len(shared) > 1] == [{"PASSES", "SHUFFLED_BLOCKS"}]
    assert [names[number] for number in names if number <= MOST_PARTITIONINGS] == [{"ENCODING"}]
