"""Dense maps that approximate a kernel: Nystroem, random Fourier features and the additive chi-square map.

They are the baselines that exact cells are compared with. Open ``fourier.py`` first, the simplest.
"""

from ikmap.maps.chi2 import Chi2Map
from ikmap.maps.fourier import FourierMap
from ikmap.maps.nystroem import NystroemMap

__all__ = ["Chi2Map", "FourierMap", "NystroemMap"]
