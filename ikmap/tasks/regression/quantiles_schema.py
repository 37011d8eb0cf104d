"""The JSON Schema of the metrics of predicted quantiles."""

from __future__ import annotations

from collections.abc import Mapping

from ikmap.json_values import JsonObject

_SHARE: JsonObject = {"type": "number", "minimum": 0, "maximum": 1}
QUANTILES: Mapping[str, JsonObject] = {
    "pinball": {"description": "Mean pinball loss of all quantiles, on the same rows as the errors.", "type": "number"},
    "quantiles": {
        "description": "Each quantile that is predicted: level, share of the rows whose target is not above it, "
        "which should be the level, and its pinball loss.",
        "type": "array",
        "minItems": 1,
        "items": {
            "type": "object",
            "properties": {"level": _SHARE, "not_above": _SHARE, "pinball": {"type": "number", "minimum": 0}},
        },
    },
    "intervals": {
        "description": "Prediction intervals between the outermost quantiles, the next ones, and so on: the levels of "
        "their ends, the share of the rows that should lie within, that of those that do, and the mean width.",
        "type": "array",
        "items": {
            "type": "object",
            "properties": {
                **dict.fromkeys(("low", "high", "nominal", "coverage"), _SHARE),
                "width": {"type": "number", "minimum": 0},
            },
        },
    },
    "crossed": {
        "description": "Share of the rows whose quantiles crossed as they were predicted, and were put in order.",
        **_SHARE,
    },
}
