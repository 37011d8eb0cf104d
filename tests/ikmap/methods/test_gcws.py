"""What `gcws` says of itself: how many codes there are where bits are given, and that a path has the same cells."""

from __future__ import annotations

import numpy as np
import pytest

from ikmap.methods import FieldError, Map, configured
from ikmap.methods.gcws import GCWS
from ikmap.methods.sample import Sample
from ikmap.methods.search import search_of
from ikmap.methods.values import at_value, cells_of_values
from pipeline.resolve import flag

X = np.random.default_rng(0).normal(size=(60, 5))
SAMPLE = Sample(60, 5, None, X.__getitem__, 3)


BOTH_FIELDS = frozenset({"p", "b"})


def test_as_many_codes_as_bits_have_room_for() -> None:
    one = GCWS(bits=100, t=7)
    search = search_of(one, BOTH_FIELDS, 60)
    assert search is not None
    codes = {
        at_value(one, BOTH_FIELDS, value).b: at_value(one, BOTH_FIELDS, value).n_partitions for value in search.values
    }
    assert codes == {2: 50, 4: 25, 8: 12, 12: 8}
    assert GCWS(t=7, p=1.0, b=8).n_partitions == 7
    assert at_value(one, BOTH_FIELDS, (1.0, 4)).fit(SAMPLE).n_partitions == 25


def test_cells_of_a_path_are_those_of_maps_that_are_fitted_alone() -> None:
    one = GCWS(bits=100)
    search = search_of(one, BOTH_FIELDS, 60)
    assert search is not None
    paths = list(cells_of_values(one, BOTH_FIELDS, search.values[:8], SAMPLE, [X, X[:9]]))
    assert [value for value, _ in paths] == list(search.values[:8])
    for value, (whole, few) in paths:
        alone = at_value(one, BOTH_FIELDS, value).fit(SAMPLE).cells(X, 1)
        np.testing.assert_array_equal(whole.codes, alone.codes)
        np.testing.assert_array_equal(whole.offsets, alone.offsets)
        np.testing.assert_array_equal(few.codes, alone.codes[:9])


def test_beside_another_map_there_are_the_codes_of_both() -> None:
    both = of_record("gcws,iforest", {"t": 10, "gcws.bits": 64, "gcws.p": 1.0, "gcws.b": 8, "iforest.psi": 4})
    assert both.n_partitions == 8 + 5
    assert both.fit(SAMPLE).n_partitions == 13
    assert of_record("gcws,iforest", {"t": 11, "gcws.p": 1.0, "iforest.psi": 4}).n_partitions == 11


def of_record(name: str, record: dict[str, object]) -> Map:
    one, _ = configured(name, record)
    assert isinstance(one, Map)
    return one


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"p": 0.0}, "--p: found 0.0, expected a number > 0, or 'auto'; give --p 0.25"),
        ({"p": float("inf")}, "--p: found inf, expected a finite number > 0, or 'auto'; give --p 0.25"),
        ({"p": 1e7}, "--p 1e+07: found a p whose codes would leave int64, expected at most 1e+06; give --p 80"),
        ({"b": 0}, "--b: found 0, expected an integer >= 1 and <= 16, or 'auto'; give --b 8"),
        ({"b": 17}, "--b: found 17, expected an integer >= 1 and <= 16, or 'auto'; give --b 8"),
        ({"gamma": 1.5}, "--gamma: found 1.5, expected an integer >= 1 and <= 64; give --gamma 2"),
        ({"bits": 15}, "--bits: found 15, expected an integer >= 16; give --bits 4096"),
    ],
)
def test_values_that_cannot_be(values: dict[str, object], said: str) -> None:
    with pytest.raises(FieldError) as caught:
        configured("gcws", values)
    line = caught.value.worded(flag)
    assert line.startswith(said)
    assert "\n" not in line
