"""Verdicts, the first things that a reader of a result has to know, and the statistical tests behind them."""

from __future__ import annotations

import math
from dataclasses import dataclass

NOTHING, BASELINE, UNFOUND, CALIBRATION = "nothing", "baseline", "unfound", "calibration"
EDGE, ID, SCALE = "edge", "id", "scale"
MISLEADING = frozenset({NOTHING, BASELINE, UNFOUND})
"""Kinds of verdict without which the main metric would mislead a reader."""
Z = 1.96
"""Half the width of a 95% interval, in standard deviations."""


@dataclass(frozen=True)
class Verdict:
    """A warning of one line on a run.

    Attributes
    ----------
    kind : str
        Subject of the line. "nothing": the learner is no better than a constant in any respect; "baseline": its main
        metric is not, though something was learned; "unfound": a class is hardly ever found; "calibration":
        probabilities are off; "edge": a value was chosen at the edge of what was tried; "id": a column numbers the
        rows; "scale": columns have very different ranges under a map of distances.
    message : str
        What happened, where, and what to type.
    learner : str or None
        Name of the learner, or None if the line is about the run.
    """

    kind: str
    message: str
    learner: str | None = None

    def as_json(self) -> dict[str, str | None]:
        """Return the line as it stands in ``metrics.json``."""
        return {"kind": self.kind, "learner": self.learner, "message": self.message}


def auc_by_chance(own: float, others: float) -> float:
    """Return the upper end of the 95% interval of the ROC AUC of uninformative scores.

    It follows from the variance of the Mann-Whitney statistic.

    Parameters
    ----------
    own, others : float
        Number of rows of the class, and of all other classes.
    """
    return 0.5 + Z * math.sqrt((own + others + 1) / (12 * own * others))


def r2_by_chance(rows: float) -> float:
    """Return the upper end of the 95% interval of the R2 of uninformative predictions.

    The correlation r of targets with numbers that are independent of them is about normal with variance 1 / rows, and
    R2 is r^2 at most, however the numbers are shifted and scaled.
    """
    return Z**2 / rows


def highest_share(hits: int, rows: int) -> float:
    """Return the upper end of Wilson's 95% interval of the share of hits among some rows."""
    share, z2 = hits / rows, Z**2
    return (share + z2 / (2 * rows) + Z * math.sqrt(share * (1 - share) / rows + z2 / (4 * rows**2))) / (1 + z2 / rows)
