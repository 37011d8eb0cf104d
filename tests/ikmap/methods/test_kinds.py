"""Lists of names on a command line: a name that has a comma stands in quotes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ikmap.methods.kinds import Names

NAMES = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1).filter(lambda name: name == name.strip())


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("a,b", ("a", "b")),
        (" a , b,a", ("a", "b")),
        ('"Population, total",b', ("Population, total", "b")),
        (' b, "Population, total" ', ("b", "Population, total")),
        ('"say ""hi""",b', ('say "hi"', "b")),
        ('5" pipe,b', ('5" pipe', "b")),
    ],
)
def test_a_comma_list_is_a_record_of_csv(text: str, names: tuple[str, ...]) -> None:
    assert Names().parse(text) == names


@given(st.lists(NAMES, min_size=1, unique=True).map(tuple))
def test_names_that_are_written_are_read_again(names: tuple[str, ...]) -> None:
    word = Names().written("--drop", names)[-1].removeprefix("--drop=")
    assert Names().parse(word) == names
    if not any({*name} & {*',"'} for name in names):
        assert word == ",".join(names)


@pytest.mark.parametrize("text", ['"a,b', '"a"b', 'a,"b'])
def test_quotes_that_do_not_match_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r'expected names with commas between, .* in double quotes, as in "a, b",c'):
        Names().parse(text)
