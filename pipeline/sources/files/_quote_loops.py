"""Compiled loops that follow the quotes of CSV text."""

from __future__ import annotations

from ikmap.compiled import compiled

PLAIN, QUOTED, CLOSED = range(3)
"""States: outside of quotes; within a quoted cell; right behind a quote that ends one, unless another quote follows."""

_QUOTE, _NEWLINE = ord('"'), ord("\n")
_TEXT = 'Array(u1, 1, "C", readonly=True)'


@compiled(inline="always")
def behind_quote(state, previous, opens):
    """Return the state behind a quote that was met in a state, behind a byte."""
    if state == QUOTED:
        return CLOSED
    if state == CLOSED and previous == _QUOTE:  # two in quotes stand for one
        return QUOTED
    return QUOTED if opens[previous] else PLAIN


@compiled({"csv": f"{_TEXT}, b1[::1], i8, i8[::1]"})
def follow(text, opens, before, states):
    """Replace each of some states by the one behind a text that begins in it.

    Parameters
    ----------
    opens : bool array (256,)
        True for bytes behind which a quote opens a cell.
    before : int
        The byte in front of the text.
    """
    for i in range(text.size):
        if text[i] == _QUOTE:
            previous = before if i == 0 else text[i - 1]
            for k in range(states.size):
                states[k] = behind_quote(states[k], previous, opens)
    if text.size > 0 and text[-1] != _QUOTE:
        for k in range(states.size):
            if states[k] == CLOSED:
                states[k] = PLAIN


@compiled({"csv": f"{_TEXT}, b1[::1], i8, i8, i8[::1]"})
def record_ends(text, opens, before, state, ends):
    """Fill in the places behind line ends that no quotes hold, and return their number."""
    found = 0
    for i in range(text.size):
        if text[i] == _QUOTE:
            previous = before if i == 0 else text[i - 1]
            state = behind_quote(state, previous, opens)
        elif text[i] == _NEWLINE and state != QUOTED:
            ends[found] = i + 1
            found += 1
    return found
