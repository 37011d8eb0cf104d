"""The report of a run: one HTML file that opens offline, made from ``metrics.json``.

Modules: ``fields`` reads a metrics dict of which any part may be missing; ``text`` formats numbers for people and
escapes; ``scores`` derives interval, baseline and per-class figures; ``charts`` draws SVG, for which ``labels`` finds
places; ``words`` says what is meant, for people who have not read the papers; ``results``, ``confusion``, ``choices``,
``stream``, ``timeline`` and ``provenance`` write the sections; ``page`` puts them together.
"""

from __future__ import annotations

from pipeline.report.page import render_report, write_report

__all__ = ["render_report", "write_report"]
