"""Labels that say true or false: as words in any case, as booleans, or as 1 and 0, they are the same labels."""

from __future__ import annotations

from collections.abc import Collection

from ikmap.json_values import Label


def known_label(label: Label, known: Collection[Label]) -> Label:
    """Return the label, or the known one that says true or false as it does, where it is not known itself."""
    if label in known or (truth := _truth(label)) is None:
        return label
    return next((other for other in known if _truth(other) is truth), label)


def _truth(label: Label) -> bool | None:
    if isinstance(label, str):
        return {"true": True, "false": False}.get(label.lower())
    return bool(label) if label in (0, 1) else None
