"""Maps side by side: their cells, their kernel, what is chosen for them, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from flows.options.batch import BatchOptions
from flows.options.online import OnlineOptions
from ikmap import IsolationKernelMap
from ikmap.cells import in_wider_layout
from ikmap.device import Host
from ikmap.kernels.isolation import isolation_kernel
from ikmap.methods import MAPS, OptionError, Sample, map_of, method
from ikmap.methods.anne import ANNE
from ikmap.methods.checks import Check, checks_of
from ikmap.methods.composed import Composed, composed
from ikmap.methods.iforest import IFOREST
from ikmap.methods.inne import INNE
from ikmap.methods.sharing import chosen, shared_out
from ikmap.model import from_parts
from ikmap.partitioners.side_by_side import seed_of_part, shares
from pipeline.errors import InputError
from pipeline.params import Params
from tests.naive import composed as naive
from tests.throwaway import growing_bins

BINS = growing_bins.METHOD
BOTH, ALL = composed((IFOREST, ANNE)), composed((INNE, IFOREST, ANNE))
X = np.random.default_rng(4).random((60, 3))
NEW = np.random.default_rng(5).random((25, 3)) * 1.5


def sample(seed: int = 3) -> Sample:
    return Sample(*X.shape, None, X.__getitem__, seed)


@pytest.mark.parametrize("check", [check for one in (ALL, composed((BINS, ANNE))) for check in checks_of(one)], ids=str)
def test_it_does_what_all_maps_have_to(check: Check) -> None:
    check.run()


@pytest.mark.parametrize(("one", "value", "t"), [(BOTH, (8, 5), 7), (ALL, (4, 16, 2), 11)], ids=["two", "three"])
def test_its_cells_are_those_of_its_maps_one_after_the_other(one: Composed, value: Any, t: int) -> None:
    model = one.fit(one.Options(t=t), value, sample())
    alone = [
        part.fit(part.Options(t=own), psi, sample(seed_of_part(3, i)))
        for i, (part, psi, own) in enumerate(zip(one.parts, value, shares(t, len(one.parts)), strict=True))
    ]
    parts = [each.cells(NEW) for each in alone]
    codes, offsets = naive.side_by_side([each.codes for each in parts], [each.offsets for each in parts])
    found = model.cells(NEW)
    np.testing.assert_array_equal(found.codes, codes)
    np.testing.assert_array_equal(found.offsets, offsets)
    assert (found.codes == -1).any() == (INNE in one.parts)  # rows in no sphere
    # A linear learner has the mean of the kernels, weighted by t: features are scaled by that of all together.
    features = found.to_csr()
    mean = sum(own * naive.kernel(each) for own, each in zip(shares(t, len(parts)), parts, strict=True)) / t
    np.testing.assert_allclose((features @ features.T).toarray(), mean, atol=1e-12)
    np.testing.assert_allclose(isolation_kernel(found, found, 1), mean, atol=1e-12)


def test_maps_draw_from_seeds_of_their_own_and_a_single_one_from_that_of_the_run() -> None:
    seeds = [seed_of_part(seed, i) for seed in (0, 1, 2**63 - 1) for i in range(3)]
    assert len(set(seeds)) == 9
    assert all(0 <= seed < 2**63 for seed in seeds)
    two = composed((ANNE, IFOREST))
    first = two.fit(two.Options(t=2), (8, 8), sample())
    assert first.parts[0].content_hash != BOTH.fit(BOTH.Options(t=2), (8, 8), sample()).parts[1].content_hash


def test_it_is_stored_as_its_maps() -> None:
    model = ALL.fit(ALL.Options(t=6), (4, 8, 8), sample())
    assert [part["kind"] for part in model.metadata()["parts"]["models_within"]] == [part.kind for part in model.parts]
    again = from_parts(model.metadata(), model.arrays())
    assert again.content_hash == model.content_hash
    np.testing.assert_array_equal(again.cells(NEW).codes, model.cells(NEW).codes)  # type: ignore[attr-defined]


def test_each_map_goes_to_the_device_if_it_can() -> None:
    model = ALL.fit(ALL.Options(t=6), (4, 8, 8), sample())
    mapper = model.mapper(Host(), budget=1 << 20)
    np.testing.assert_array_equal(mapper.cells(NEW).codes, model.cells(NEW).codes)
    assert "no code for devices" in mapper.explain()  # inne
    assert model.parts[2].mapper(Host()).why in mapper.explain()  # anne


def test_a_map_grows_beside_one_that_does_not() -> None:
    one = composed((ANNE, BINS))
    options = one.Options(t=5)
    assert one.grows(options)
    assert not BOTH.grows(BOTH.Options())
    model = one.fit(options, (8, 4), sample())
    larger, found = one.extend(options, model, NEW)
    assert larger.parts[0].content_hash == model.parts[0].content_hash
    assert larger.offsets[-1] > model.offsets[-1]
    assert found.complete
    np.testing.assert_array_equal(found.codes, larger.cells(NEW).codes)
    known = model.cells(NEW)
    np.testing.assert_array_equal(found.codes[~known.missing], known.codes[~known.missing])
    numbers = np.arange(1.0, model.offsets[-1] + 1)
    assert set(in_wider_layout(numbers, model.offsets, larger.offsets)) == {0.0, *numbers}


def test_tables_of_cells_are_there_where_all_maps_have_them(monkeypatch: pytest.MonkeyPatch) -> None:
    assert BOTH.tables == frozenset()
    other = type(IFOREST)(name="other", title="", about="")
    two = composed((IFOREST, other))
    assert two.tables == IFOREST.tables
    model = two.fit(two.Options(t=3), (8, 4), sample())
    tables = two.cell_tables(two.Options(t=3), model, sample())
    starts = model.offsets
    assert np.add.reduceat(tables["points"], starts[:-1]).tolist() == [8, 8, 4]
    monkeypatch.setitem(MAPS, "other", other)
    with pytest.raises(InputError, match=r"needs the depth of cells, which --partitioner iforest,anne does not"):
        Params.given(partitioner="iforest,anne", learners=["iforest-score"], task="novelty")


# --- what is chosen


def test_psi_is_searched_together_and_then_for_one_map_after_the_other() -> None:
    options = BOTH.Options()
    assert BOTH.parameter(options) == "iforest.psi, anne.psi"
    first = BOTH.search(options, 50)
    assert first is not None
    assert first.values == ((4, 4), (8, 8), (16, 16), (32, 32))
    second = BOTH.refined(options, [(8, 8)], 50, 0)
    assert second is not None
    assert second.values == ((4, 8), (8, 8), (16, 8), (32, 8))
    third = BOTH.refined(options, [(16, 8), (32, 8)], 50, 1)  # two learners that differ
    assert third is not None
    assert third.values == tuple((a, b) for a in (16, 32) for b in (4, 8, 16, 32))
    assert BOTH.refined(options, [(16, 32)], 50, 2) is None
    assert BOTH.given(options) is None
    assert ANNE.refined(ANNE.Options(), [8], 50, 0) is None


def test_a_psi_that_is_given_stays() -> None:
    options = BOTH.Options(**{"anne.psi": 100})
    found = BOTH.search(options, 50)
    assert found is not None
    assert found.values == ((4, 40), (8, 40), (16, 40), (32, 40))  # no fold has more rows
    assert BOTH.refined(options, found.values[:1], 50, 0) is None
    both = BOTH.Options(**{"anne.psi": 100, "iforest.psi": 9})
    assert BOTH.search(both, 50) is None
    assert BOTH.given(both) == (9, 100)
    assert BOTH.comparable(both, (9, 100), 50) == (9, 40)
    assert BOTH.refused(both, (9, 100), 99) == "--psi 100: found 99 training rows, expected at least psi"
    assert BOTH.refused(both, (9, 100), 100) is None


def test_maps_with_other_numbers_to_try_go_from_the_smallest_to_the_largest_together() -> None:
    one = composed((BINS, ANNE))
    found = one.search(one.Options(), 1000)
    assert found is not None
    assert (found.values[0], found.values[-1]) == ((2, 4), (8, 512))
    assert len(found.values) == 8
    assert {value[0] for value in found.values} == {2, 4, 8}


def test_options_are_those_of_the_maps() -> None:
    def of(plain: dict[str, Any], scoped: dict[str, Any] | None = None) -> dict[str, Any]:
        return shared_out(chosen("iforest,anne", ["svm"], plain, scoped), plain, scoped)["iforest,anne"]

    assert of({"psi": 64, "t": 9}) == {"t": 9, "iforest.psi": 64, "anne.psi": 64}
    assert of({"psi": 64}, {"anne": {"psi": 8}}) == {"iforest.psi": 64, "anne.psi": 8}
    assert of({"max_depth": "log2"}) == {"iforest.max_depth": "log2"}
    params = Params.given(partitioner="iforest,anne", learners=["svm"], psi=64, t=9)
    assert params.t == 9
    assert params.width("svm", 1000) == (64, 64)
    assert Params(**{**params.as_json(), "learners": ("svm",)}) == params
    assert [own.t for own in BOTH.options_of(params.map_options)] == [5, 4]


# --- what is refused


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--partitioner iforest,iforest", r"--partitioner: found 'iforest' twice, expected different names"),
        ("--partitioner iforest,ann", r"--partitioner: found 'ann', expected one of .* \(did you mean 'anne'\?\)"),
        ("--partitioner auto,anne", r"--partitioner: found 'auto' with others, expected it alone"),
        ("--partitioner iforest,", r"--partitioner: found '', expected one of"),
        ("--partitioner iforest,anne --t 1", r"--t 1: found 2 maps, expected at least one partitioning for each"),
        ("--partitioner iforest,anne --iforest.t 30", r"--iforest.t 30: found --partitioner iforest,anne, .* --t$"),
        (
            "--partitioner iforest,anne --inne.psi 4",
            r"--inne.psi 4: found iforest anne logistic ridge iforest-score chosen; add --part",
        ),
        ("--partitioner inne,anne --max-depth log2", r"found --partitioner inne,anne, expected iforest"),
    ],
)
def test_what_cannot_be_is_refused_in_a_line(words: str, said: str) -> None:
    with pytest.raises(InputError, match=said) as raised:
        BatchOptions.parse(["--input", "rows.csv", *words.split()])
    assert "\n" not in str(raised.value)


def test_learners_that_cannot_go_on_as_cells_become_more_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(MAPS, BINS.name, BINS)
    assert isinstance(map_of(f"anne,{BINS.name}"), Composed)
    monkeypatch.setattr("flows.options.online.OnlineOptions.map", property(lambda _: f"anne,{BINS.name}"))
    with pytest.raises(InputError, match=rf"found --partitioner anne,{BINS.name}, whose cells become more"):
        OnlineOptions(input="rows.csv", learner=("ogd-dual",))


def test_names_that_are_no_maps_are_refused() -> None:
    with pytest.raises(OptionError, match=r"--partitioner: found 'svm', expected some of anne, iforest, inne"):
        method("svm,anne")
    with pytest.raises(OptionError, match=r"method 'nothing' is not known on"):
        method("anne,nothing")
    with pytest.raises(InputError, match=r"--partitioner anne,anne: found anne twice, expected different maps"):
        Params(partitioner="anne,anne", learners=("svm",))


def test_words_of_a_command_line_and_a_file_give_the_same() -> None:
    words = ["--partitioner", "iforest,anne", "--psi", "9", "--anne.psi", "5"]
    given = BatchOptions.parse(["--input", "rows.csv", *words])
    assert given.partitioner == "iforest,anne"
    assert BatchOptions.from_toml(given.to_toml()).methods == given.methods
    assert given.methods["iforest,anne"] == {"iforest.psi": 9, "anne.psi": 5}
    listed = BatchOptions.from_toml('input = "rows.csv"\npartitioner = ["iforest", " anne"]\n')
    assert listed.partitioner == "iforest,anne"
    assert BatchOptions.parse(given.command().split()[3:]) == given


# --- the transformer


def test_the_transformer_has_them_too() -> None:
    model = IsolationKernelMap("iforest,anne", 7, (8, 5), random_state=3).fit(X)
    expected = BOTH.fit(BOTH.Options(t=7), (8, 5), sample())
    np.testing.assert_array_equal(model.cells(NEW), expected.cells(NEW).codes)
    assert model.max_samples_ == (8, 5)
    assert model.transform(NEW).shape == (25, 4 * 8 + 3 * 5)
    depth = IsolationKernelMap("iforest,anne", 7, 8, random_state=3, max_depth="log2").fit(X)
    assert depth.max_samples_ == (8, 8)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            {"method": "anne,anne"},
            "method must be one of anne, iforest, none twice, got 'anne,anne'",
        ),
        ({"method": "anne,iforest", "n_estimators": 1}, "n_estimators must be at least 2, got 1"),
        ({"method": "anne,iforest", "max_samples": (4, 4, 4)}, "max_samples must have a number for each method"),
        ({"method": "anne,iforest", "max_samples": (4, 0.5)}, "max_samples must be a whole number"),
    ],
)
def test_the_transformer_refuses(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        IsolationKernelMap(**given).fit(X)
