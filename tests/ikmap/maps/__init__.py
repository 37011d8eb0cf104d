"""Tests of the dense maps that approximate a kernel."""
