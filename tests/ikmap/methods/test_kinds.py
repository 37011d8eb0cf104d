"""Names on a command line, and lists of them: one that has a comma, or blanks around it, stands in quotes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ikmap.methods.kinds import Choice, Name, Names

NAMES = st.text(st.characters(exclude_categories=["Cs"]))


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("a,b", ("a", "b")),
        (" a , b,a", ("a", "b")),
        ('"Population, total",b', ("Population, total", "b")),
        (' b, "Population, total" ', ("b", "Population, total")),
        ('"say ""hi""",b', ('say "hi"', "b")),
        ('5" pipe,b', ('5" pipe', "b")),
        ('""', ("",)),
        ('a, "" ," b"', ("a", "", " b")),
    ],
)
def test_a_comma_list_is_a_record_of_csv(text: str, names: tuple[str, ...]) -> None:
    assert Names().parse(text) == names


@given(st.lists(NAMES, min_size=1, unique=True).map(tuple))
def test_names_that_are_written_are_read_again(names: tuple[str, ...]) -> None:
    word = Names().written("--drop", names)[-1].removeprefix("--drop=")
    assert Names().parse(word) == names
    if all(name and name == name.strip() and not {*name} & {*',"'} for name in names):
        assert word == ",".join(names)


@pytest.mark.parametrize("text", ['"a,b', '"a"b', 'a,"b'])
def test_quotes_that_do_not_match_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r'expected names with commas between, .* in double quotes, as in "a, b",c'):
        Names().parse(text)


@pytest.mark.parametrize("text", ["", " ", "a,", ",a", "a, ,b"])
def test_the_empty_name_stands_in_quotes(text: str) -> None:
    with pytest.raises(ValueError, match=r"""^found '', expected a name; type '""' for the empty name$"""):
        Names().parse(text)
    with pytest.raises(ValueError, match=r"found '', expected one of a, b"):
        Names(Choice(("a", "b"))).parse("a,")


def test_names_in_an_array_are_as_they_are() -> None:
    assert Names().check(["", " a", "a", " a", '"b"']) == ("", " a", "a", '"b"')
    assert Names(Choice(("a", "b"))).check([" a", "b "]) == ("a", "b")


@pytest.mark.parametrize(
    ("text", "name"), [("a, b", "a, b"), (" a", " a"), ('""', ""), ('" a"', " a"), ('"a ""b"""', 'a "b"'), ('"a', '"a')]
)
def test_one_name_may_stand_in_quotes(text: str, name: str) -> None:
    assert Name("COLUMN").parse(text) == name
    assert Name("COLUMN").check(name) == name


@given(NAMES)
def test_one_name_that_is_written_is_read_again(name: str) -> None:
    word = Name("COLUMN").written("--id", name)[-1].removeprefix("--id=")
    assert Name("COLUMN").parse(word) == name


@pytest.mark.parametrize("text", ["", " "])
def test_a_name_that_is_not_given_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expected a text that is not empty; type '\"\"' for the empty name"):
        Name("COLUMN").parse(text)
