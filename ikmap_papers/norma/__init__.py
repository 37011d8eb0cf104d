"""Online Learning with Kernels (NORMA)."""
