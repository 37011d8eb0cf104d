"""The methods that a run can name. Each says everything about itself, in one file of this folder.

What methods are made of is in ``map.py``, ``learner.py`` and ``learners.py`` (bases), ``kernel.py``, ``options.py``,
``kinds.py`` and ``search.py``; ``registry.py`` knows them all, and ``sharing.py`` gives each its options. Open
``linear_on_cells.py`` first, for a learner, or ``iforest.py``, for a map.
"""

from __future__ import annotations

from ikmap.methods.kernel import KernelMethod
from ikmap.methods.learner import Learner
from ikmap.methods.learners import CountsLearner, DualLearner, StreamLearner, WholeLearner
from ikmap.methods.map import Map, MapShape
from ikmap.methods.options import MethodOptions, OptionError, option
from ikmap.methods.registry import (
    KERNELS,
    LEARNERS,
    MAPS,
    Method,
    counts_learner,
    dual_learner,
    import_models,
    load_packages,
    map_of,
    method,
    methods,
    plain_options,
    rounds_learner,
    stream_learner,
    whole_learner,
)
from ikmap.methods.rounds import RoundsLearner
from ikmap.methods.sample import Sample, Shape, Training
from ikmap.methods.search import Search
from ikmap.splits import CellSplit, Swept

__all__ = [
    "KERNELS",
    "LEARNERS",
    "MAPS",
    "CellSplit",
    "CountsLearner",
    "DualLearner",
    "KernelMethod",
    "Learner",
    "Map",
    "MapShape",
    "Method",
    "MethodOptions",
    "OptionError",
    "RoundsLearner",
    "Sample",
    "Search",
    "Shape",
    "StreamLearner",
    "Swept",
    "Training",
    "WholeLearner",
    "counts_learner",
    "dual_learner",
    "import_models",
    "map_of",
    "method",
    "methods",
    "option",
    "plain_options",
    "rounds_learner",
    "stream_learner",
    "whole_learner",
]

load_packages()
