"""Tests of columns: kinds, and cells that become numbers."""
