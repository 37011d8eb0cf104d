"""The report of a run: one HTML file that opens offline, made from ``metrics.json``.

How it looks is in ``templates/``: HTML, SVG, the style sheet and the script. What it says comes from these modules:
``fields`` reads a metrics dict of which any part may be missing; ``text`` formats numbers for people; ``scores``
derives interval, baseline and per-class figures; ``charts`` says where everything in a chart goes, and ``labels`` finds
places for its labels; ``words`` says what is meant, for people who have not read the papers; ``results``,
``confusion``, ``choices``, ``stream``, ``timeline`` and ``provenance`` make the sections; ``page`` puts them together.
``rendering`` fills in the templates, and sees to it that names and labels are shown as text.
"""

from __future__ import annotations

from pipeline.report.page import render_report, write_report

__all__ = ["render_report", "write_report"]
