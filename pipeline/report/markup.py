"""Pieces of HTML that several sections use."""

from __future__ import annotations

from collections.abc import Iterable

from pipeline.report.text import esc


def section(key: str, title: str, body: str) -> str:
    """A section with its heading (``title`` and ``body`` already escaped)."""
    return f'<section id="{key}" aria-labelledby="{key}-h"><h2 id="{key}-h">{title}</h2>{body}</section>'


def pairs(rows: Iterable[tuple[str, str]]) -> str:
    """A table of names and values (both already escaped)."""
    body = "".join(f'<tr><th scope="row">{name}</th><td class="text">{value}</td></tr>' for name, value in rows)
    return f'<table class="pairs"><tbody>{body}</tbody></table>'


def fold(summary: str, body: str) -> str:
    """A part that is folded away until somebody asks for it, or prints (``summary`` and ``body`` already escaped)."""
    return f"<details><summary>{summary}</summary>{body}</details>"


def scroll(table: str, name: str, kind: str = "") -> str:
    """A table in a box that scrolls sideways, and can be reached by keyboard."""
    return f'<div class="scroll {kind}" role="region" aria-label="{esc(name)}" tabindex="0">{table}</div>'
