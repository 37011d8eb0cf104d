"""Tests of the run directory and the store: what is whole, what is damaged, and how that is noticed."""
