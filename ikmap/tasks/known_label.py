"""Labels in another type: numbers as words, and true and false as words in any case, as booleans, or as 1 and 0."""

from __future__ import annotations

from collections.abc import Collection

from ikmap.json_values import Label


def known_label(label: Label, known: Collection[Label]) -> Label:
    """Return the label, or the known one that it stands for where it is not known itself.

    That is the same number as a word, or the same word as a number, or one that says true or false as it does.
    """
    for same in (label, _in_other_type(label)):
        if same in known:
            return same
    truth = _truth(label)
    return label if truth is None else next((other for other in known if _truth(other) is truth), label)


def _in_other_type(label: Label) -> Label:
    """Return a number as a word, and a word that is written as that number would be as the number."""
    if isinstance(label, bool):
        return label
    if not isinstance(label, str):
        return str(label)
    for kind in (int, float):
        try:
            number = kind(label)
        except ValueError:
            continue
        if str(number) == label:
            return number
    return label


def _truth(label: Label) -> bool | None:
    if isinstance(label, str):
        return {"true": True, "false": False}.get(label.lower())
    return bool(label) if label in (0, 1) else None
