"""Trials that take too long for the test suite and are started by hand: damage to every bit, power cuts, secrets.

Begin with ``python -m tests.soaks.bit_flips``.
"""
