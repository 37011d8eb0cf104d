"""The methods that a run can name. Each says everything about itself, in one file of this folder."""

from __future__ import annotations

from importlib import import_module

from ikmap.methods.adaraker import ADARAKER, RAKER
from ikmap.methods.chi2 import CHI2_LINEAR, CHI2_SVM
from ikmap.methods.fourier import FOURIER_LINEAR
from ikmap.methods.kernel_ogd import KERNEL_OGD
from ikmap.methods.kernel_svm import ISOLATION_SVM, KERNEL_SVM
from ikmap.methods.learner import DualLearner, Learner, Sample, Shape, StreamLearner, WholeLearner
from ikmap.methods.linear_on_cells import LOGISTIC, SVM
from ikmap.methods.nogd import NOGD
from ikmap.methods.ogd import OGD, OGD_DUAL, OGD_NAIVE

__all__ = [
    "LEARNERS",
    "LEARNER_OPTIONS",
    "DualLearner",
    "Learner",
    "Sample",
    "Shape",
    "StreamLearner",
    "WholeLearner",
    "dual_learner",
    "import_models",
    "stream_learner",
    "whole_learner",
]

LEARNERS: dict[str, Learner] = {
    learner.name: learner
    for learner in (
        SVM,
        LOGISTIC,
        OGD,
        OGD_NAIVE,
        OGD_DUAL,
        ISOLATION_SVM,
        KERNEL_OGD,
        NOGD,
        ADARAKER,
        RAKER,
        KERNEL_SVM,
        CHI2_SVM,
        CHI2_LINEAR,
        FOURIER_LINEAR,
    )
}
LEARNER_OPTIONS = frozenset({"psi"}).union(*(learner.options for learner in LEARNERS.values()))
"""Options that decide the result of some learners only."""


def import_models() -> None:
    """Make the kinds of all models known: each is, once its module is imported."""
    for module in {module for learner in LEARNERS.values() for module in learner.models}:
        import_module(module)


def stream_learner(name: str) -> StreamLearner:
    """The learner of that name, which learns from one row after the other."""
    learner = LEARNERS[name]
    assert isinstance(learner, StreamLearner), name
    return learner


def dual_learner(name: str) -> DualLearner:
    """The learner of that name, a linear one on cells."""
    learner = LEARNERS[name]
    assert isinstance(learner, DualLearner), name
    return learner


def whole_learner(name: str) -> WholeLearner:
    """The learner of that name, which learns from all rows at once."""
    learner = LEARNERS[name]
    assert isinstance(learner, WholeLearner), name
    return learner
