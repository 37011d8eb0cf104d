"""The methods that a run can name: maps to cells, learners and kernels. Each is a configured object, in one file here.

The parts of methods are in ``fields.py`` (fields declare options), ``map.py``, ``learner.py`` and ``kernel.py``
(bases), ``capabilities.py`` (what only some methods can do) and ``search.py`` (the order of cross-validation);
``registry.py`` has the classes by name. Open ``linear_on_cells.py`` first, for a learner, or ``anne.py``, for a map.
"""

from __future__ import annotations

from ikmap.capability import capability
from ikmap.methods.about import About, KernelAbout, LearnerAbout, MapAbout
from ikmap.methods.builtin import register_built_in
from ikmap.methods.capabilities import (
    CellTables,
    DecidesOtherwise,
    DoesNotFit,
    FitsByPartitioning,
    FollowsC,
    FollowsSplits,
    Growable,
    LearnsOutOfFold,
    LearnsSeparately,
    Path,
    Redrawable,
    SharesWork,
    Splitting,
    Sweepable,
)
from ikmap.methods.composed import Composed
from ikmap.methods.fields import (
    AUTO,
    Advice,
    Before,
    Configured,
    Doc,
    Field,
    FieldError,
    Searched,
    Symbol,
    fields_of,
)
from ikmap.methods.kernel import HasFourier, KernelMethod
from ikmap.methods.kernel_on_rows import OnKernel
from ikmap.methods.learner import (
    CountsLearner,
    DualLearner,
    DualProblem,
    Learner,
    RoundsLearner,
    StreamLearner,
    WholeLearner,
)
from ikmap.methods.map import Map, MapMemory, PsiMap, RowsInfo, refused_on
from ikmap.methods.method import Candidates, InvalidValue, Method, SearchSpace
from ikmap.methods.registry import (
    KERNELS,
    LEARNERS,
    MAPS,
    PackageError,
    UnknownMethod,
    configured,
    fields_by_name,
    import_models,
    load_packages,
    load_papers,
    method,
    methods,
    register,
    unregister,
)
from ikmap.methods.sample import Sample, Shape, Training
from ikmap.methods.search import Search, search_of
from ikmap.methods.values import at_value, parameter_of, value_of
from ikmap.splits import CellSplit, Swept

__all__ = [
    "AUTO",
    "KERNELS",
    "LEARNERS",
    "MAPS",
    "About",
    "Advice",
    "Before",
    "Candidates",
    "CellSplit",
    "CellTables",
    "Composed",
    "Configured",
    "CountsLearner",
    "DecidesOtherwise",
    "Doc",
    "DoesNotFit",
    "DualLearner",
    "DualProblem",
    "Field",
    "FieldError",
    "FitsByPartitioning",
    "FollowsC",
    "FollowsSplits",
    "Growable",
    "HasFourier",
    "InvalidValue",
    "KernelAbout",
    "KernelMethod",
    "Learner",
    "LearnerAbout",
    "LearnsOutOfFold",
    "LearnsSeparately",
    "Map",
    "MapAbout",
    "MapMemory",
    "Method",
    "OnKernel",
    "PackageError",
    "Path",
    "PsiMap",
    "Redrawable",
    "RoundsLearner",
    "RowsInfo",
    "Sample",
    "Search",
    "SearchSpace",
    "Searched",
    "Shape",
    "SharesWork",
    "Splitting",
    "StreamLearner",
    "Sweepable",
    "Swept",
    "Symbol",
    "Training",
    "UnknownMethod",
    "WholeLearner",
    "at_value",
    "capability",
    "configured",
    "fields_by_name",
    "fields_of",
    "import_models",
    "method",
    "methods",
    "parameter_of",
    "refused_on",
    "register",
    "search_of",
    "unregister",
    "value_of",
]

register_built_in()
load_papers()
load_packages()
