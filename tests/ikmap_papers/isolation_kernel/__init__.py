"""Tests of the Isolation Kernel paper."""
