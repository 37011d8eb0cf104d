"""Tests of what methods declare about themselves, and of the checks that every method has to pass."""
