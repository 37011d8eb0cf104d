"""The report of a run: one HTML file that opens offline, made from ``metrics.json``.

Its looks are in ``templates/``: HTML, SVG, the style sheet and the script. Its contents come from these modules:
``fields`` reads a metrics dict of which every part may be missing; ``text`` formats numbers for people; ``scores``
derives interval, baseline and per-class metrics; ``charts`` lays out charts, and ``labels`` finds places for their
labels; ``words`` explains terms, for people who have not read the papers; ``results``, ``confusion``,
``leaderboard``, ``choices``, ``stream``, ``timeline`` and ``provenance`` make the sections; ``page`` puts them
together. ``rendering`` fills in the templates, and shows names and labels as text.
"""

from __future__ import annotations

from pipeline.report.page import render_report, write_report

__all__ = ["render_report", "write_report"]
