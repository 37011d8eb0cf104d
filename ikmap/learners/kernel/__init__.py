"""Kernel machines that keep training rows as support vectors: the SVM with an exact kernel.

Open ``kernel_svm.py`` first; ``working_set.py`` solves problems whose kernel matrix would not fit into memory.
"""
