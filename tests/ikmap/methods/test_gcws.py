"""What `gcws` says of itself: how many codes there are where bits are given, and that a path has the same cells."""

from __future__ import annotations

import numpy as np
import pytest

from ikmap.methods import MAPS
from ikmap.methods.gcws import GCWS
from ikmap.methods.options import OptionError
from ikmap.methods.registry import map_of
from ikmap.methods.sample import Sample

X = np.random.default_rng(0).normal(size=(60, 5))
SAMPLE = Sample(60, 5, None, X.__getitem__, 3)


def test_as_many_codes_as_bits_have_room_for() -> None:
    options = GCWS.Options(p="auto", b="auto", bits=100, t=7)
    search = GCWS.search(options, 60)
    assert search is not None
    codes = {b: GCWS.partitionings(options, (p, b)) for p, b in search.values}
    assert codes == {2: 50, 4: 25, 8: 12, 12: 8}
    assert GCWS.partitionings(GCWS.Options(t=7), (1.0, 8)) == 7
    assert GCWS.fit(options, (1.0, 4), SAMPLE).n_partitions == 25


def test_cells_of_a_path_are_those_of_maps_that_are_fitted_alone() -> None:
    options = GCWS.Options(p="auto", b="auto", bits=100)
    search = GCWS.search(options, 60)
    assert search is not None
    values = search.values[:8]
    for value, (whole, few) in GCWS.path(options, values, 3, X, [X, X[:9]]):
        alone = GCWS.fit(options, value, SAMPLE).cells(X, 1)
        np.testing.assert_array_equal(whole.codes, alone.codes)
        np.testing.assert_array_equal(whole.offsets, alone.offsets)
        np.testing.assert_array_equal(few.codes, alone.codes[:9])


def test_beside_another_map_there_are_the_codes_of_both() -> None:
    both = map_of("gcws,iforest")
    options = both.Options(**{"t": 10, "gcws.bits": 64, "gcws.p": 1.0, "gcws.b": 8, "iforest.psi": 4})
    value = both.given(options)
    assert both.partitionings(options, value) == 8 + 5
    assert both.fit(options, value, SAMPLE).n_partitions == 13
    plain = both.Options(**{"t": 11, "gcws.p": 1.0, "iforest.psi": 4})
    assert both.partitionings(plain, both.given(plain)) == 11


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
def test_values_that_cannot_be(values: dict[str, float], said: str) -> None:
    with pytest.raises(OptionError) as caught:
        MAPS["gcws"].Options(**values)
    assert str(caught.value).startswith(said)
    assert "\n" not in str(caught.value)
