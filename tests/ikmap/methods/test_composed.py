"""Maps side by side: their cells, their kernel, what is chosen for them, and what is refused."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pytest

from flows.options.batch import BatchOptions
from ikmap import IsolationKernelMap
from ikmap.cells import in_wider_layout
from ikmap.device import Host
from ikmap.kernels.isolation import isolation_kernel
from ikmap.methods import (
    CellTables,
    FieldError,
    Growable,
    MapAbout,
    Redrawable,
    Sample,
    UnknownMethod,
    at_value,
    capability,
    configured,
    parameter_of,
    refused_on,
    search_of,
)
from ikmap.methods.anne import Anne
from ikmap.methods.checks import Check, checks_of
from ikmap.methods.composed import Composed, composed_of_record, shares
from ikmap.methods.iforest import IForest
from ikmap.methods.inne import INNE
from ikmap.methods.map import Map
from ikmap.methods.search import fitting, refined
from ikmap.model import from_parts
from ikmap.partitioners import SideBySide
from ikmap.partitioners.side_by_side import seed_of_part
from pipeline.errors import InputError
from pipeline.params import Params
from pipeline.resolve import chosen, flag, refuse_growth, shared_out
from tests.naive import composed as naive
from tests.plugins import registered
from tests.plugins.fixed import Fixed
from tests.plugins.growing_bins import GrowingBins
from tests.support.narrow import entries, items


def of(*kinds: type[Map], **record: object) -> Composed:
    """Return maps side by side, of which all numbers are searched that the record does not name."""
    return composed_of_record(kinds, {key.replace("_", "."): value for key, value in record.items()})[0]


BINS = GrowingBins.about.name
BOTH, ALL = of(IForest, Anne), of(INNE, IForest, Anne)
PSIS = frozenset({"iforest.psi", "anne.psi"})
X = np.random.default_rng(4).random((60, 3))
NEW = np.random.default_rng(5).random((25, 3)) * 1.5


def sample(seed: int = 3) -> Sample:
    return Sample(X.shape[0], X.shape[1], None, X.__getitem__, seed)


@pytest.mark.parametrize("check", [check for one in (ALL, of(GrowingBins, Anne)) for check in checks_of(one)], ids=str)
def test_it_does_what_all_maps_have_to(check: Check) -> None:
    check.run()


@pytest.mark.parametrize(
    ("one", "t"),
    [
        (of(IForest, Anne, t=7, iforest_psi=8, anne_psi=5), 7),
        (of(INNE, IForest, Anne, t=11, inne_psi=4, iforest_psi=16, anne_psi=2), 11),
    ],
    ids=["two", "three"],
)
def test_its_cells_are_those_of_its_maps_one_after_the_other(one: Composed, t: int) -> None:
    model = one.fit(sample())
    assert [part.t for part in one.parts] == shares(t, len(one.parts))
    alone = [part.fit(sample(seed_of_part(3, i))) for i, part in enumerate(one.parts)]
    parts = [each.cells(NEW) for each in alone]
    codes, offsets = naive.side_by_side([each.codes for each in parts], [each.offsets for each in parts])
    found = model.cells(NEW)
    np.testing.assert_array_equal(found.codes, codes)
    np.testing.assert_array_equal(found.offsets, offsets)
    assert (found.codes == -1).any() == any(isinstance(part, INNE) for part in one.parts)  # rows in no sphere
    # A linear learner has the mean of the kernels, weighted by t: features are scaled by that of all together.
    features = found.to_csr()
    mean = sum(own * naive.kernel(each) for own, each in zip(shares(t, len(parts)), parts, strict=True)) / t
    np.testing.assert_allclose((features @ features.T).toarray(), mean, atol=1e-12)
    np.testing.assert_allclose(isolation_kernel(found, found, 1), mean, atol=1e-12)


def test_maps_draw_from_seeds_of_their_own_and_a_single_one_from_that_of_the_run() -> None:
    seeds = [seed_of_part(seed, i) for seed in (0, 1, 2**63 - 1) for i in range(3)]
    assert len(set(seeds)) == 9
    assert all(0 <= seed < 2**63 for seed in seeds)
    values = {"t": 2, "anne_psi": 8, "iforest_psi": 8}
    first, other = of(Anne, IForest, **values).fit(sample()), of(IForest, Anne, **values).fit(sample())
    assert isinstance(first, SideBySide)
    assert isinstance(other, SideBySide)
    assert first.parts[0].content_hash != other.parts[1].content_hash


SIX = of(INNE, IForest, Anne, t=6, inne_psi=4, iforest_psi=8, anne_psi=8)


def test_it_is_stored_as_its_maps() -> None:
    model = SIX.fit(sample())
    assert isinstance(model, SideBySide)
    assert [part["kind"] for part in items(entries(model.metadata()["parts"])["models_within"])] == [
        part.kind for part in model.parts
    ]
    again = from_parts(model.metadata(), model.arrays())
    assert again.content_hash == model.content_hash
    np.testing.assert_array_equal(again.cells(NEW).codes, model.cells(NEW).codes)  # type: ignore[attr-defined]


def test_each_map_goes_to_the_device_if_it_can() -> None:
    model = SIX.fit(sample())
    assert isinstance(model, SideBySide)
    mapper = model.mapper(Host(), budget=1 << 20)
    np.testing.assert_array_equal(mapper.cells(NEW).codes, model.cells(NEW).codes)
    assert "no code for devices" in mapper.explain()  # inne
    assert model.parts[2].mapper(Host()).why in mapper.explain()  # anne


def test_a_map_grows_beside_one_that_does_not() -> None:
    one = of(Anne, GrowingBins, t=5, anne_psi=8)
    assert capability(one, Growable) is one
    assert capability(BOTH, Growable) is None
    model = one.fit(sample())
    larger, found = one.extend(model, NEW)
    assert isinstance(model, SideBySide)
    assert isinstance(larger, SideBySide)
    assert larger.parts[0].content_hash == model.parts[0].content_hash
    assert larger.offsets[-1] > model.offsets[-1]
    assert found.complete
    np.testing.assert_array_equal(found.codes, larger.cells(NEW).codes)
    known = model.cells(NEW)
    np.testing.assert_array_equal(found.codes[~known.missing], known.codes[~known.missing])
    numbers = np.arange(1.0, model.offsets[-1] + 1)
    assert set(in_wider_layout(numbers, model.offsets, larger.offsets)) == {0.0, *numbers}


class Other(IForest):
    about: ClassVar[MapAbout] = MapAbout(name="other", title="", tables=IForest.about.tables)


def test_tables_of_cells_are_there_where_all_maps_have_them() -> None:
    assert capability(BOTH, CellTables) is None
    two = of(IForest, Other, t=3, iforest_psi=8, other_psi=4)
    assert two.description.tables == IForest.about.tables
    tables = capability(two, CellTables)
    assert tables is not None
    model = two.fit(sample())
    found = tables.cell_tables(model, sample())
    assert np.add.reduceat(found["points"], model.offsets[:-1]).tolist() == [8, 8, 4]
    with (
        registered(Other),
        pytest.raises(InputError, match=r"needs the depth of cells, which --partitioner iforest,anne does not"),
    ):
        Params.given(partitioner="iforest,anne", learners=["iforest-score"], task="novelty")


# --- what is chosen


def test_psi_is_searched_together_and_then_for_one_map_after_the_other() -> None:
    assert configured("iforest,anne", {})[1] == PSIS
    assert parameter_of(BOTH, PSIS) == "iforest.psi, anne.psi"
    first = search_of(BOTH, PSIS, 50)
    assert first is not None
    assert first.values == ((4, 4), (8, 8), (16, 16), (32, 32))
    second = refined(BOTH, PSIS, [(8, 8)], 50, 0)
    assert second is not None
    assert second.values == ((4, 8), (8, 8), (16, 8), (32, 8))
    third = refined(BOTH, PSIS, [(16, 8), (32, 8)], 50, 1)  # two learners that differ
    assert third is not None
    assert third.values == tuple((a, b) for a in (16, 32) for b in (4, 8, 16, 32))
    assert refined(BOTH, PSIS, [(16, 32)], 50, 2) is None
    assert refined(Anne(), frozenset({"psi"}), [8], 50, 0) is None


def test_a_psi_that_is_given_stays() -> None:
    one, searched = configured("iforest,anne", {"anne.psi": 100})
    assert searched == {"iforest.psi"}
    found = search_of(one, searched, 50)
    assert found is not None
    assert found.values == ((4, 40), (8, 40), (16, 40), (32, 40))  # no fold has more rows
    assert refined(one, searched, found.values[:1], 50, 0) is None
    both = of(IForest, Anne, anne_psi=100, iforest_psi=9)
    nothing: frozenset[str] = frozenset()
    assert search_of(both, nothing, 50) is None
    assert fitting(both, nothing, 50) == (9, 40)
    refused = refused_on(both, 99)
    assert refused is not None
    assert refused.worded(flag) == "--psi 100: found 99 training rows, expected at least psi"
    assert refused_on(both, 100) is None


def test_maps_with_other_numbers_to_try_go_from_the_smallest_to_the_largest_together() -> None:
    one = of(GrowingBins, Anne)
    found = search_of(one, frozenset({f"{BINS}.bins", "anne.psi"}), 1000)
    assert found is not None
    assert (found.values[0], found.values[-1]) == ((2, 4), (8, 512))
    assert len(found.values) == 8
    assert {value[0] for value in found.values if isinstance(value, tuple)} == {2, 4, 8}


def test_partitionings_are_shared_out_and_drawn_anew_if_all_maps_can() -> None:
    assert [part.t for part in BOTH.at({"t": 9}).parts] == [5, 4]
    assert at_value(BOTH, PSIS, (8, 5)).value_at("anne.psi") == 5
    assert capability(BOTH, Redrawable) is BOTH
    assert capability(of(GrowingBins, Anne), Redrawable) is None


def test_options_are_those_of_the_maps() -> None:
    def given(plain: dict[str, Any], scoped: dict[str, Any] | None = None) -> dict[str, Any]:
        return shared_out(chosen("iforest,anne", ["svm"], plain, scoped), plain, scoped)["iforest,anne"]

    assert given({"psi": 64, "t": 9}) == {"t": 9, "iforest.psi": 64, "anne.psi": 64}
    assert given({"psi": 64}, {"anne": {"psi": 8}}) == {"iforest.psi": 64, "anne.psi": 8}
    assert given({"max_depth": "log2"}) == {"iforest.max_depth": "log2"}
    params = Params.given(partitioner="iforest,anne", learners=["svm"], psi=64, t=9)
    assert params.t == 9
    assert params.map_value("svm", 1000) == (64, 64)
    assert Params(**{**params.as_json(), "learners": ("svm",)}) == params
    assert isinstance(params.map, Composed)
    assert [part.t for part in params.map.parts] == [5, 4]


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


def test_learners_that_cannot_go_on_as_cells_become_more_are_refused() -> None:
    with registered(GrowingBins):
        assert isinstance(configured(f"anne,{BINS}", {})[0], Composed)
    with (
        registered(GrowingBins, Fixed),
        pytest.raises(InputError, match=rf"found --partitioner anne,{BINS}, whose cells become more"),
    ):
        refuse_growth((f"anne,{BINS}", "fixed"), {})


def test_names_that_are_no_maps_are_refused() -> None:
    with pytest.raises(FieldError) as caught:
        configured("svm,anne", {})
    assert caught.value.worded(flag).startswith("--partitioner: found 'svm', expected some of anne, iforest, inne")
    with pytest.raises(UnknownMethod, match=r"method 'nothing' is not known on"):
        configured("anne,nothing", {})
    with pytest.raises(InputError, match=r"--partitioner anne,anne: found anne twice, expected different maps"):
        Params(partitioner="anne,anne", learners=("svm",))


def test_words_of_a_command_line_and_a_file_give_the_same() -> None:
    words = ["--partitioner", "iforest,anne", "--psi", "9", "--anne.psi", "5"]
    given = BatchOptions.parse(["--input", "rows.csv", *words])
    assert given.partitioner == "iforest,anne"
    assert BatchOptions.from_toml(given.to_toml()).by_method == given.by_method
    assert given.by_method["iforest,anne"] == {"iforest.psi": 9, "anne.psi": 5}
    listed = BatchOptions.from_toml('input = "rows.csv"\npartitioner = ["iforest", " anne"]\n')
    assert listed.partitioner == "iforest,anne"
    assert BatchOptions.parse(given.command().split()[3:]) == given


# --- the transformer


def test_the_transformer_has_them_too() -> None:
    model = IsolationKernelMap("iforest,anne", 7, (8, 5), random_state=3).fit(X)
    expected = of(IForest, Anne, t=7, iforest_psi=8, anne_psi=5).fit(sample())
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
            "method: found 'anne,anne', expected different names",
        ),
        (
            {"method": "anne,iforest", "n_estimators": 1},
            "n_estimators: found 1, expected at least 2, one for each method",
        ),
        (
            {"method": "anne,iforest", "max_samples": (4, 4, 4)},
            "max_samples: found .*, expected a number for each method",
        ),
        ({"method": "anne,iforest", "max_samples": (4, 0.5)}, "max_samples: found 0.5, expected an integer >= 1"),
    ],
)
def test_the_transformer_refuses(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        IsolationKernelMap(**given).fit(X)
