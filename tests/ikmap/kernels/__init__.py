"""Tests of the exact kernels, against their formulas written out plainly."""
