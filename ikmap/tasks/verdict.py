"""Verdicts, the first things that a reader of a result has to know, and the statistical tests behind them."""

from __future__ import annotations

import math
from dataclasses import dataclass

NOTHING, FEW, BASELINE, UNFOUND, CALIBRATION = "nothing", "few", "baseline", "unfound", "calibration"
EDGE, ID, SCALE, QUALITY, PERFECT = "edge", "id", "scale", "quality", "perfect"
MISLEADING = frozenset({NOTHING, BASELINE, UNFOUND, PERFECT})
"""Kinds of verdict without which the main metric would mislead a reader."""
Z = 1.96
"""Half the width of a 95% interval, in standard deviations."""


@dataclass(frozen=True)
class Verdict:
    """A line on a run: how good it is, or a warning.

    Attributes
    ----------
    kind : str
        Subject of the line. "quality": how good the best learner is, against a constant; "nothing": the learner is no
        better than a constant in any respect; "few": it is better, but by no more than chance may do on so few rows;
        "baseline": its main metric is not certainly better, though something was learned;
        "unfound": a class is hardly ever found; "perfect": hardly a prediction is off, so that a column may give the
        label away; "calibration": probabilities are off; "edge": a value was chosen at the edge of what was tried;
        "id": a column numbers the rows; "scale": columns have very different ranges under a map of distances.
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


def perfect(name: str, figure: str) -> Verdict:
    """Warn of predictions that are too good: `figure` says how good, as in "is right on all 400 test rows"."""
    return Verdict(
        PERFECT,
        f"{name} {figure}: unless the label follows from the columns, one of them gives it away, such as one that is "
        "only known afterwards; --importance finds out which columns matter, --drop NAME leaves one out",
        name,
    )


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


def interval_of_share(share: float, rows: float) -> tuple[float, float]:
    """Return Wilson's 95% interval of a share of some rows."""
    z2 = Z**2
    centre, half = share + z2 / (2 * rows), Z * math.sqrt(share * (1 - share) / rows + z2 / (4 * rows**2))
    return max(0.0, (centre - half) / (1 + z2 / rows)), min(1.0, (centre + half) / (1 + z2 / rows))


def interval_of_auc(area: float, own: float, others: float) -> tuple[float, float]:
    """Return the 95% interval of a ROC AUC, by the standard error of Hanley and McNeil (1982).

    An area of 0 or 1 has that of a share of the rows of the rarer class.

    Parameters
    ----------
    area : float
    own, others : float
        Number of rows of the class, and of all other classes.
    """
    both_own, both_others = area / (2 - area), 2 * area**2 / (1 + area)
    variance = area * (1 - area) + (own - 1) * (both_own - area**2) + (others - 1) * (both_others - area**2)
    half = Z * math.sqrt(max(0.0, variance) / (own * others))
    if area in (0.0, 1.0):  # where their variance is 0, however few rows there are
        return interval_of_share(area, min(own, others))
    return max(0.0, area - half), min(1.0, area + half)


def interval_of_r2(r2: float, rows: float) -> tuple[float, float]:
    """Return the 95% interval of an R2 above 0: that of the correlation whose square it is, by Fisher's z."""
    if not 0 < r2 < 1:
        return r2, r2
    if rows <= 3:  # any three points are nearly on a line
        return 0.0, 1.0
    z, half = math.atanh(math.sqrt(r2)), Z / math.sqrt(rows - 3)
    return math.tanh(max(0.0, z - half)) ** 2, math.tanh(z + half) ** 2


def in_percent(share: float) -> str:
    """Return a share as a percentage, with as many digits as it needs where it is near 0 or 1."""
    rest = min(share, 1 - share)
    if not 0 < rest < 0.01:
        return f"{share:.1%}"
    return f"{share:.{max(2, math.ceil(-math.log10(rest)) - 2)}%}"


def highest_share(hits: int, rows: int) -> float:
    """Return the upper end of Wilson's 95% interval of the share of hits among some rows."""
    return interval_of_share(hits / rows, rows)[1]
