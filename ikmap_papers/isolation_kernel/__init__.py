"""Isolation Kernel: The X Factor in Efficient and Effective Large Scale Online Kernel Learning."""
