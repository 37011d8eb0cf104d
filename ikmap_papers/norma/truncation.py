"""The number of rounds after which NORMA may drop what a row added, and what that costs (algorithms.md 11.5)."""

from __future__ import annotations

import math

from ikmap.learners.online.norma_rule import NormaRule


def derivative_bound(rule: NormaRule) -> float:
    """Return the largest absolute derivative of the loss by the prediction; infinite for squared errors."""
    return math.inf if rule.loss == "squared" else 1.0


def rounds_kept(rule: NormaRule, error: float, largest: float = 1.0) -> int:
    """Return the rounds tau after which terms may be dropped, so that functions are off by at most `error` in norm.

    Raises
    ------
    ValueError
        No number of rounds is enough, or the rule needs all terms.
    """
    if not 0 < error < math.inf:
        raise ValueError(f"truncation: found {error:g}, expected a number > 0")
    if rule.regularization == 0:
        raise ValueError("truncation: found regularization 0, by which nothing shrinks, expected a number > 0, as 0.01")
    if rule.decreasing:
        raise ValueError(
            "truncation: found steps that decrease, by which old terms keep their weight, expected constant ones"
        )
    if not math.isfinite(derivative_bound(rule)):
        raise ValueError("truncation: found the squared loss, whose steps have no bound, expected another loss")
    if rule.average:
        raise ValueError(
            "truncation: found the mean of all functions, which keeps all terms, expected the last function"
        )
    kept = 1.0 - rule.eta * rule.regularization
    if kept <= 0:
        return 1
    wanted = error * rule.regularization / (derivative_bound(rule) * math.sqrt(largest))
    return max(1, math.ceil(math.log(wanted) / math.log(kept)))
