"""Quality against seconds: the automatic choice of models, and FLAML's, each given the same time."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from benchmarks.harness import Options
from benchmarks.table_peers import CATBOOST, LIGHTGBM
from benchmarks.tables import ANYTIME, measure

TITLE = "Quality against seconds"
ABOUT = (
    "what --budget and FLAML come to in 10, 30, 60 and 300 seconds, beside LightGBM and CatBoost with their defaults, "
    "on the same rows: area, R2, accuracy, log loss, RMSE and seconds"
)
DATASETS = ("adult", "electricity", "covtype-93k", "kin40k", "protein", "MagicTelescope")
"""Tables that are large enough for models to go on getting better for minutes."""


def run(options: Options, folder: Path, *, unset: list[str], fresh: bool = False) -> int:
    """Measure what ``budgets.json`` does not hold yet, and write the tables."""
    wanted = replace(
        options,
        datasets=options.datasets or DATASETS,
        splits=options.splits or 1,
        sides=options.sides or (LIGHTGBM, CATBOOST, *ANYTIME),
    )
    return measure("budgets", (TITLE, ABOUT), wanted, folder / "budgets.json", unset=unset, fresh=fresh)
