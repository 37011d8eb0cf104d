"""Holds what a run has written to the schema of ``metrics.json``, with all methods and tasks known at that moment."""

from __future__ import annotations

import json
from pathlib import Path

from jsonschema import Draft202012Validator

from pipeline.runs.schema import metrics_schema


def check_metrics(run: Path) -> None:
    """Refuse what ``metrics.json`` of a run directory says beside the schema, or leaves out."""
    Draft202012Validator(metrics_schema()).validate(json.loads((run / "metrics.json").read_text(encoding="utf-8")))
