"""Criteria of a search over classifiers, each a mean over rows, so that races can compare candidates.

A fold is scored as a whole: the score of a row may depend on the other rows of its fold, and the scores of folds are
averaged over their rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from ikmap.tasks.classification.kind import Classification
from ikmap.tasks.classification.presenter import ACCURACY
from ikmap.tasks.criteria import ByDecisions, ComparesRows, Criterion, FitsRows
from ikmap.tasks.metric import Metric, Sentences

if TYPE_CHECKING:
    import numpy as np

TASKS = frozenset({Classification.name})


class Accuracy(Criterion):
    """Share of the rows whose class is predicted."""

    metric: ClassVar[Metric] = ACCURACY
    tasks: ClassVar[frozenset[str]] = TASKS

    def row_scores(self, target: np.ndarray, predicted: np.ndarray) -> np.ndarray:
        """Return a mask of the right predictions."""
        return predicted == target


class BalancedAccuracy(Criterion, ComparesRows):
    """Mean recall: a row counts by the inverse of its class's share of the fold."""

    metric: ClassVar[Metric] = Metric("balanced_accuracy", "share", Sentences.about("Mean recall of the classes"))
    tasks: ClassVar[frozenset[str]] = TASKS

    def row_scores(self, target: np.ndarray, predicted: np.ndarray) -> np.ndarray:
        import numpy as np

        counts = np.bincount(target)
        weight = target.size / (np.count_nonzero(counts) * counts[target])
        return weight * (predicted == target)


class RocAuc(ByDecisions, ComparesRows):
    """Area under the ROC curve, of more than two classes the mean area of each class against the rest.

    The score of a row is the area, plus how far the placement of the row (the share of the rows of the other kind on
    the right side of it) lies from the mean, divided by the share of its kind. The mean over the rows is the area
    itself; the squares of differences between two learners add up to the variance of DeLong's test, by which a race
    compares them. Source: E. R. DeLong, D. M. DeLong, D. L. Clarke-Pearson, "Comparing the areas under two or more
    correlated receiver operating characteristic curves", Biometrics 44, 1988.
    """

    metric: ClassVar[Metric] = Metric("roc_auc", "share", Sentences.about("Area under the ROC curve"), name="ROC AUC")
    tasks: ClassVar[frozenset[str]] = TASKS

    def row_scores(self, target: np.ndarray, decisions: np.ndarray) -> np.ndarray:
        import numpy as np

        outputs = decisions.shape[1]
        own = target[:, None] == (np.arange(outputs) if outputs > 1 else np.array([1]))
        parts = [_parts_of_area(own[:, k], decisions[:, k]) for k in range(outputs) if 0 < own[:, k].sum() < len(own)]
        return np.mean(parts, axis=0) if parts else np.full(target.size, 0.5)


def _parts_of_area(own: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return the score of each row; `own` is a mask of the rows of the class."""
    import numpy as np
    from scipy.stats import rankdata

    ranks = rankdata(values)
    placement = np.empty(own.size)
    n_own, n = int(own.sum()), own.size
    for kind, others in ((own, n - n_own), (~own, n_own)):
        within = rankdata(values[kind])
        placement[kind] = (ranks[kind] - within) / others  # share of the other kind below, ties for half
    placement[~own] = 1.0 - placement[~own]
    area = float(placement[own].mean())
    share = np.where(own, n_own, n - n_own) / n
    return area + (placement - area) / share


class ByProbabilities(ByDecisions, FitsRows):
    """A criterion that scores probabilities.

    They are those of the task if it is calibrated (log odds are probabilities already). Otherwise they are found by
    Platt's method, which fits two numbers for each class to the scored rows of the fold, for all candidates alike.
    """

    @property
    def fits_rows(self) -> bool:
        """True if the decisions are no probabilities, so that a curve is fitted to the rows."""
        import numpy as np

        return self.task.decisions.probabilities(np.zeros((1, self.task.decisions.outputs))) is None

    def probabilities(self, target: np.ndarray, decision: np.ndarray) -> np.ndarray:
        """Return the probability of each class, shape (n, classes)."""
        from ikmap.tasks.classification.calibration import PLATT, fit_calibrator
        from ikmap.tasks.classification.class_scores import ClassScores
        from ikmap.tasks.classification.evidence import DecisionEvidence

        known = self.task.decisions.probabilities(decision)
        if known is not None:
            return known
        evidence = (ClassScores if decision.shape[1] == 1 else DecisionEvidence).of(target, decision)
        return fit_calibrator(PLATT, evidence).probabilities(decision)


class LogLoss(ByProbabilities):
    """Mean logarithm of the probability of the true class of a row."""

    metric: ClassVar[Metric] = Metric("log_loss", "number", Sentences.about("Mean log loss"), higher_is_better=False)
    tasks: ClassVar[frozenset[str]] = TASKS

    def row_scores(self, target: np.ndarray, decisions: np.ndarray) -> np.ndarray:
        import numpy as np

        from ikmap.tasks.classification.probability_state import LEAST

        own = self.probabilities(target, decisions)[np.arange(target.size), target]
        return np.log(np.maximum(own, LEAST))


class Brier(ByProbabilities):
    """Squared error of probabilities: of the second of two classes, or summed over all of more classes."""

    metric: ClassVar[Metric] = Metric(
        "brier",
        "number",
        Sentences.about("Mean squared error of probabilities"),
        higher_is_better=False,
        name="Brier score",
    )
    tasks: ClassVar[frozenset[str]] = TASKS

    def row_scores(self, target: np.ndarray, decisions: np.ndarray) -> np.ndarray:
        import numpy as np

        probability = self.probabilities(target, decisions)
        own = probability[np.arange(target.size), target]
        if probability.shape[1] == 2:
            return -((1.0 - own) ** 2)
        return -((probability**2).sum(axis=1) - own**2 + (1.0 - own) ** 2)
