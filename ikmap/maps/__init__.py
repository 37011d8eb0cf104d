"""Approximate dense maps of kernels: the baselines of the exact sparse ones."""

from ikmap.maps.chi2 import Chi2Map
from ikmap.maps.fourier import FourierMap
from ikmap.maps.nystroem import NystroemMap

__all__ = ["Chi2Map", "FourierMap", "NystroemMap"]
