"""Tests of feeds: sources of rows that arrive over time."""
