"""Tests of the paper on tunable GMM kernels."""
