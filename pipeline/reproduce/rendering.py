"""The templates of the page of a reproduction, which uses those of the report of a run."""

from __future__ import annotations

from pipeline.report.rendering import Templates

render = Templates("pipeline.reproduce", "pipeline.report").render
