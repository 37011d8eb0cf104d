"""What a process keeps: the latest used, up to so many, all forgotten at once."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pipeline.storage.lru_cache import LRUCache, Process

steps = st.lists(st.tuples(st.sampled_from(["get", "put", "take", "make_room", "forget"]), st.integers(0, 5)))


@given(most=st.integers(1, 4) | st.none(), steps=steps)
def test_it_is_a_list_of_the_latest_used(most: int | None, steps: list[tuple[str, int]]) -> None:
    kept: LRUCache[int, str] = LRUCache(most)
    expected: list[int] = []  # the one used last at the end
    for step, key in steps:
        there = key in expected
        if step == "get":
            assert kept.get(key) == (str(key) if there else None)
            expected = [*(k for k in expected if k != key), *([key] if there else [])]
        elif step == "put":
            kept.put(key, str(key))
            expected = [*(k for k in expected if k != key), key][-(most or len(expected) + 1) :]
        elif step == "take":
            assert kept.take(key) == (str(key) if there else None)
            expected = [k for k in expected if k != key]
        elif step == "make_room":
            kept.make_room()
            expected = expected if most is None else expected[len(expected) - min(len(expected), most - 1) :]
        else:
            kept.forget()
            expected = []
        assert list(kept) == expected
        assert kept.values() == [str(key) for key in expected]
        assert len(kept) == len(expected)


def test_a_process_forgets_all_that_it_keeps() -> None:
    process = Process()
    first: LRUCache[str, int] = process.keeps(1)
    second: LRUCache[str, int] = process.keeps(None)
    first.put("a", 1)
    second.put("b", 2)
    process.forget()
    assert (len(first), len(second)) == (0, 0)
