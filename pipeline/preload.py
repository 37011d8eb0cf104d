"""Imported by the process that the workers of this machine are forked from: loads what tasks need, once for all."""

from __future__ import annotations

from pipeline.warm import load

load()
