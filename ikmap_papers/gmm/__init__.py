"""Several Tunable GMM Kernels."""
