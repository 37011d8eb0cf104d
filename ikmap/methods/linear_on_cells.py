"""Linear SVM and logistic regression on cells: the IK-SVM of the Isolation Kernel paper, by dual descent."""

from __future__ import annotations

from ikmap.methods.learner import DualLearner

SVM = DualLearner(name="svm", title="linear SVM on cells", on="cells", own="solver parts loss", takes_C=True)
LOGISTIC = DualLearner(
    name="logistic",
    title="logistic regression on cells",
    on="cells",
    own="solver parts",
    takes_C=True,
    loss="logistic",
)
