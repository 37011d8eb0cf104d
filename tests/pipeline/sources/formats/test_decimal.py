"""Decimal numbers in text: the value of ``float()``, bit for bit, or left to it."""

from __future__ import annotations

import io
import math
from decimal import Decimal, localcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numba import njit
from sklearn.datasets import load_svmlight_file

from pipeline.sources.formats._decimal_loops import BAD, EXACT, SLOW, address, number
from tests.support.narrow import csr
from tests.support.opening import opened


@njit
def _number_at(codes: np.ndarray, p: int) -> Any:
    return number(address(codes), codes.size, p)  # type: ignore[call-arg]  # compiled code takes no context


def read(text: str, before: str = "", after: str = "\n") -> tuple[int, float]:
    codes = np.frombuffer(f"{before}{text}{after}\n".encode().rjust(8), dtype=np.uint8)
    begin = codes.size - len(text) - len(after) - 1
    kind, value, end = _number_at(codes, begin)
    assert kind == BAD or end == begin + len(text)
    return kind, value


def is_right(text: str) -> bool:
    kind, value = read(text)
    return kind == SLOW or (kind == EXACT and value.hex() == float(text).hex())


positive = st.floats(0, allow_nan=False, allow_infinity=False)


@pytest.mark.slow
@settings(max_examples=200)
@given(value=st.floats(allow_nan=False, allow_infinity=False))
@example(value=5e-324)
@example(value=2.2250738585072014e-308)
@example(value=1.7976931348623157e308)
@example(value=-0.0)
def test_shortest_form_is_read_without_help(value: float) -> None:
    kind, found = read(repr(value))
    assert (kind, found.hex()) == (EXACT, value.hex())


@pytest.mark.slow
@settings(max_examples=200)
@given(value=positive, digits=st.sampled_from([1, 5, 17, 18, 19, 20, 30, 800]), up=st.booleans())
def test_halfway_between_two_numbers(value: float, digits: int, up: bool) -> None:
    """The hardest texts there are: cut anywhere, in either direction."""
    after = math.nextafter(value, math.inf)
    if math.isfinite(after):
        with localcontext(prec=1200):
            middle = (Decimal(value) + Decimal(after)) / 2
        with localcontext(prec=digits, rounding="ROUND_UP" if up else "ROUND_DOWN"):
            assert is_right(str(+middle))


@pytest.mark.slow
@settings(max_examples=200)
@given(
    whole=st.integers(0, 10**25),
    fraction=st.none() | st.text("0123456789", max_size=30),
    exponent=st.none() | st.integers(-400, 400),
    sign=st.sampled_from(["", "-", "+"]),
)
@example(whole=9007199254740993, fraction=None, exponent=0, sign="")
@example(whole=9007199254740993, fraction="0" * 29 + "1", exponent=0, sign="-")
@example(whole=0, fraction="0" * 30, exponent=400, sign="-")
def test_any_text(whole: int, fraction: str | None, exponent: int | None, sign: str) -> None:
    text = f"{sign}{whole}" + ("" if fraction is None else f".{fraction}")
    assert is_right(text + ("" if exponent is None else f"e{exponent}"))


def test_ties_go_to_even() -> None:
    for whole in range(2**53, 2**53 + 10):
        for power in range(-6, 24):
            assert is_right(f"{whole}e{power}")
            assert is_right(f"{whole * 2 + 1}e{power}")


@pytest.mark.parametrize(
    "text",
    [
        *("2.4703282292062327e-324", "2.4703282292062328e-324", "2.2250738585072011e-308", "1.7976931348623159e308"),
        *("1e999", "-1e999", "1e-999", "0e999999999", "1e2000001", "0" * 50, "0." + "123456789" * 9),
        *("0." + "0" * 400 + "1e400", "1" + "0" * 400 + "e-400", "1e0000000000000000001", "1e-00000000000000000001"),
    ],
)
def test_edges(text: str) -> None:
    assert is_right(text)
    assert is_right("-" + text.removeprefix("-"))


@pytest.mark.parametrize("value", [1e400, -1e400])
def test_no_infinity_is_made(value: float) -> None:
    kind, _ = read("1.7976931348623159e308" if value > 0 else "-2e308")
    assert kind == SLOW


@pytest.mark.parametrize(
    "text", ["", "-", ".", "-.", "e5", ".e5", "1e", "1e+", "1x", "1e5x", "1.5.5", "--1", "nan", "1_0"]
)
def test_no_number(text: str) -> None:
    assert read(text)[0] == BAD


@pytest.mark.parametrize("n", [*range(1, 26)])
def test_at_either_end_of_the_text(n: int) -> None:
    """Eight bytes are read at a time, and never one outside the text."""
    digits = ("1234567890" * 3)[:n]
    for text in (f".{digits}", f"{digits}.{digits}"):
        for before in ("", "1 ", "x" * 20):
            for after in ("", " ", " 5 6 7 8 9"):
                kind, value = read(text, before, after)
                assert kind == SLOW or value == float(text)


def test_equals_scikit_learn(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    text = io.StringIO()
    for label in range(300):
        columns = np.flatnonzero(rng.random(40) < 0.3) + 1
        values = rng.normal(size=columns.size) * 10.0 ** rng.integers(-12, 12, columns.size)
        forms = rng.choice(["{!r}", "{:.3e}", "{:.0f}", "{:.6f}", "{:.25g}"], columns.size)
        pairs = [f"{j}:" + form.format(v) for j, form, v in zip(columns, forms, values.tolist(), strict=True)]
        print(label / 8, *pairs, file=text)
    path = tmp_path / "forms.libsvm"
    path.write_text(text.getvalue())
    X, y = load_svmlight_file(str(path), n_features=40)
    source = opened(str(path), n_columns=40)
    (block,) = [block for fragment in source.fragments() for block in source.read(fragment)]
    np.testing.assert_array_equal(csr(block.X).toarray(), X.toarray())
    np.testing.assert_array_equal(block.y, y)
