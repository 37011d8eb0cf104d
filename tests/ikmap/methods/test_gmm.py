"""GMM kernels by their names: which numbers each has, what cross-validation tries, and what it computes once."""

from __future__ import annotations

import numpy as np
import pytest

from ikmap.kernels import kernel_as_dict
from ikmap.methods import KERNELS, LEARNERS
from ikmap.methods.gmm import FEW, GMM_KERNELS, VALUES
from ikmap.methods.kernel_on_rows import kernel_on_rows
from ikmap.methods.options import OptionError

PARAMETERS = {
    "gmm": (), "egmm": ("le",), "pgmm": ("p",), "gamma-gmm": ("gamma",), "p-gamma-gmm": ("p", "gamma"),
    "ep-gmm": ("p", "le"), "e-gamma-gmm": ("gamma", "le"), "ep-gamma-gmm": ("p", "gamma", "le"),
}  # fmt: skip
SVM = LEARNERS["kernel-svm"]


def options_of(name, **values):
    return SVM.bound(SVM.Options(kernel=name), {name: KERNELS[name].Options(**values)})


def test_every_name_of_the_paper_is_there():
    assert {one.name for one in GMM_KERNELS} == set(PARAMETERS) <= set(KERNELS)


@pytest.mark.parametrize("name", PARAMETERS)
def test_numbers_that_are_not_given_are_searched_together(name):
    names = PARAMETERS[name]
    options = options_of(name)
    search = SVM.search(options, 500)
    if not names:
        assert search is None
        assert SVM.given(options) is None
    else:
        tried = [(VALUES if len(names) == 1 else FEW)[one] for one in names]
        assert set(search.parameter.split(", ")) == set(names)
        assert len(search.values) == np.prod([len(values) for values in tried])
    given = options_of(name, **dict.fromkeys(names, 2.0))
    assert SVM.search(given, 500) is None
    kernel = kernel_on_rows(given, SVM.given(given), 3)
    assert kernel_as_dict(kernel) == {"name": "gmm", "p": 1.0, "gamma": 1.0, "le": None} | dict.fromkeys(names, 2.0)


@pytest.mark.parametrize(
    ("name", "passes"), [("egmm", 1), ("gamma-gmm", 1), ("e-gamma-gmm", 1), ("ep-gmm", len(FEW["p"]))]
)
def test_cross_validation_makes_one_pass_for_each_p(name, passes):
    options = options_of(name)
    keys = {SVM.sharing(options, value) for value in SVM.search(options, 500).values}
    assert None not in keys
    assert len(keys) == passes


def test_kernels_of_p_alone_share_nothing():
    for name in ("gmm", "pgmm"):
        assert SVM.sharing(options_of(name), 2.0) is None


@pytest.mark.parametrize("bad", [0.0, -1.0, float("inf"), float("nan")])
def test_bad_numbers_are_refused_in_a_line(bad):
    with pytest.raises(OptionError, match=r"^--p: found .*, expected a (finite )?number > 0, or 'auto'"):
        KERNELS["pgmm"].Options(p=bad)
