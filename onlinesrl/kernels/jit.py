"""How kernels are compiled: cached on disk, numpy's division, and no reference counting.

Kernels get arrays, allocate none and return numbers, so the counting that numba would do for every array
of every argument at every call is switched off; with it the same code is about ten times slower.
"""

from numba import njit

kernel = njit(cache=True, error_model="numpy", _nrt=False)
inlined = njit(cache=True, error_model="numpy", _nrt=False, forceinline=True)
