"""Tests of files, local and remote, whatever their format: found, opened, decompressed, cut into ranges."""
