"""GMM kernels by their names: which numbers each has, what cross-validation tries, and what it computes once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ikmap.kernels import kernel_as_dict, min_max
from ikmap.methods import KERNELS, FieldError, at_value, gmm, parameter_of, search_of
from ikmap.methods.gmm import FEW, GMM_KERNELS, VALUES
from ikmap.methods.kernel_svm import KernelSVM
from tests.support.narrow import present

PARAMETERS = {
    "gmm": (), "egmm": ("le",), "pgmm": ("p",), "gamma-gmm": ("gamma",), "p-gamma-gmm": ("p", "gamma"),
    "ep-gmm": ("p", "le"), "e-gamma-gmm": ("gamma", "le"), "ep-gamma-gmm": ("p", "gamma", "le"),
}  # fmt: skip


def svm_with(name: str, **values: Any) -> tuple[KernelSVM, frozenset[str]]:
    kernel, searched = KERNELS[name].of_record(values)
    return KernelSVM(kernel=kernel), frozenset(f"kernel.{path}" for path in searched)


def test_every_name_of_the_paper_is_there() -> None:
    assert {kind.about.name for kind in GMM_KERNELS} == set(PARAMETERS) <= set(KERNELS)


@pytest.mark.parametrize("name", PARAMETERS)
def test_numbers_that_are_not_given_are_searched_together(name: str) -> None:
    names = PARAMETERS[name]
    svm, searched = svm_with(name)
    search = search_of(svm, searched, 500)
    if not names:
        assert search is None
        assert parameter_of(svm, searched) == ""
    else:
        assert search is not None
        tried = [(VALUES if len(names) == 1 else FEW)[one] for one in names]
        assert set(search.parameter.split(", ")) == set(names)
        assert len(search.values) == np.prod([len(values) for values in tried])
        middle = {one: values[len(values) // 2] for one, values in zip(names, tried, strict=True)}
        assert svm.kernel.record() == middle  # where nothing chooses them
    svm, searched = svm_with(name, **dict.fromkeys(names, 2.0))
    assert search_of(svm, searched, 500) is None
    kernel = svm.kernel.kernel(3)
    assert kernel_as_dict(kernel) == {"name": "gmm", "p": 1.0, "gamma": 1.0, "le": None} | dict.fromkeys(names, 2.0)


def test_a_number_beside_one_that_is_given_is_searched_alone() -> None:
    svm, searched = svm_with("ep-gmm", p=2.0)
    search = present(search_of(svm, searched, 500))
    assert search.parameter == "le, p"
    assert search.values == tuple((le, 2.0) for le in VALUES["le"])
    assert svm.kernel.record() == {"le": 10.0, "p": 2.0}


@pytest.mark.parametrize(
    ("name", "passes"), [("egmm", 1), ("gamma-gmm", 1), ("e-gamma-gmm", 1), ("ep-gmm", len(FEW["p"]))]
)
def test_cross_validation_makes_one_pass_for_each_p(name: str, passes: int) -> None:
    svm, searched = svm_with(name)
    keys = {at_value(svm, searched, value).sharing() for value in present(search_of(svm, searched, 500)).values}
    assert None not in keys
    assert len(keys) == passes


def test_kernels_of_p_alone_share_nothing() -> None:
    for name in ("gmm", "pgmm"):
        assert svm_with(name)[0].sharing() is None


@pytest.mark.parametrize("bad", [0.0, -1.0, float("inf"), float("nan")])
def test_bad_numbers_are_refused_in_a_line(bad: float) -> None:
    with pytest.raises(FieldError, match=r"^p: found .*, expected a (finite )?number > 0, or 'auto'"):
        KERNELS["pgmm"].of_record({"p": bad})


@pytest.mark.parametrize("name", [name for name, parameters in PARAMETERS.items() if "p" in parameters])
def test_powers_that_would_overflow_are_refused(name: str) -> None:
    assert gmm.MOST_P == min_max.MOST_P
    assert KERNELS[name].of_record({"p": gmm.MOST_P})
    with pytest.raises(FieldError, match=r"^p 1024: found a p .*, expected at most 1000; give p 80 .*, or auto"):
        KERNELS[name].of_record({"p": 1024.0})
