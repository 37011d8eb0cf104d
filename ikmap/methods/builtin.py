"""The methods that come with the product, in the order in which they are listed."""

from __future__ import annotations

from ikmap.methods.additive_chi2 import AdditiveChi2
from ikmap.methods.anne import Anne
from ikmap.methods.binning import Binning
from ikmap.methods.boosting import Boosting
from ikmap.methods.chi2 import Chi2Linear, Chi2SVM
from ikmap.methods.forest import Forest
from ikmap.methods.fourier import FourierLinear
from ikmap.methods.fourier_ridge import FourierRidge
from ikmap.methods.gaussian import Gaussian
from ikmap.methods.gcws import GCWS
from ikmap.methods.gmm import GMM_KERNELS, CosineRBF
from ikmap.methods.idk import IDK
from ikmap.methods.iforest import IForest
from ikmap.methods.iforest_score import IForestScore
from ikmap.methods.inne import INNE
from ikmap.methods.intersection import Intersection
from ikmap.methods.isolation import Isolation
from ikmap.methods.kernel_ogd import KernelOGD
from ikmap.methods.kernel_ridge import KernelRidge
from ikmap.methods.kernel_svm import IsolationSVM, KernelSVM
from ikmap.methods.laplacian import Laplacian
from ikmap.methods.linear import LinearOnColumns
from ikmap.methods.linear_kernel import Cosine, Linear
from ikmap.methods.linear_on_cells import LinearSVM, LogisticRegression
from ikmap.methods.method import Method
from ikmap.methods.mondrian import Mondrian
from ikmap.methods.mondrian_forest import MondrianForest
from ikmap.methods.norma import Norma
from ikmap.methods.ogd import OGD
from ikmap.methods.online_ridge import OnlineRidgeRegression
from ikmap.methods.quantile import Quantile
from ikmap.methods.registry import register
from ikmap.methods.ridge import Ridge
from ikmap.methods.stacking import Stacking
from ikmap.methods.svr import LinearSVR
from ikmap.methods.two_stage_gmm import TwoStageGMM

BUILT_IN: tuple[type[Method], ...] = (
    Laplacian,
    Gaussian,
    AdditiveChi2,
    Intersection,
    Linear,
    Cosine,
    CosineRBF,
    *GMM_KERNELS,
    Isolation,
    Anne,
    IForest,
    INNE,
    GCWS,
    Mondrian,
    Binning,
    Forest,
    LinearSVM,
    LogisticRegression,
    Ridge,
    LinearSVR,
    OGD,
    Norma,
    IsolationSVM,
    Quantile,
    MondrianForest,
    OnlineRidgeRegression,
    KernelOGD,
    KernelSVM,
    KernelRidge,
    Chi2SVM,
    Chi2Linear,
    FourierLinear,
    FourierRidge,
    TwoStageGMM,
    Boosting,
    LinearOnColumns,
    Stacking,
    IDK,
    IForestScore,
)


def register_built_in() -> None:
    """Register the methods that come with the product."""
    for kind in BUILT_IN:
        register(kind)
