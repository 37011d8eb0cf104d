"""Text of others, such as names, labels and answers of servers, made safe to show."""

from __future__ import annotations

import re

from pipeline.urls import without_secrets

# C0 and C1 controls and DEL; marks that turn the direction of what follows; separators of lines and paragraphs; halves
# of surrogate pairs, which no encoding takes.
_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text: str, keep: str = "") -> str:
    r"""Return `text` so that it is safe to show.

    Every character that controls a terminal or a browser is written out, as in ``\x1b[31m``, and URLs lose their
    credentials and queries.

    Parameters
    ----------
    keep : str
        Control characters that may stay, such as the line ends of a text of several lines.
    """
    return _UNSAFE.sub(lambda match: match[0] if match[0] in keep else _written(match[0]), without_secrets(text))


def not_utf8(expected: str) -> str:
    """Return the message for bytes that are not UTF-8: what was found and expected, and what to type."""
    return (
        f"found bytes that are not UTF-8, expected {expected} in UTF-8; convert the file, from Latin-1 for example: "
        "iconv -f latin1 -t utf-8 FILE > NEW"
    )


def _written(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def shown(text: str, limit: int = 40) -> str:
    """Return `text` quoted for a message: in one line, and not too long."""
    return repr(text if len(text) <= limit else text[:limit] + "...")
