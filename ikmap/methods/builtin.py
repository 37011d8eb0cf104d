"""The methods that come with the product, in the order in which they are listed."""

from __future__ import annotations

from ikmap.methods.anne import Anne
from ikmap.methods.binning import Binning
from ikmap.methods.gaussian import Gaussian
from ikmap.methods.gcws import GCWS
from ikmap.methods.iforest import IForest
from ikmap.methods.inne import INNE
from ikmap.methods.linear_on_cells import LinearSVM, LogisticRegression
from ikmap.methods.method import Method
from ikmap.methods.mondrian import Mondrian
from ikmap.methods.registry import register

BUILT_IN: tuple[type[Method], ...] = (
    Gaussian,
    Anne,
    IForest,
    INNE,
    GCWS,
    Mondrian,
    Binning,
    LinearSVM,
    LogisticRegression,
)


def register_built_in() -> None:
    """Register them all."""
    for one in BUILT_IN:
        register(one)
