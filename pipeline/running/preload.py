"""Imported by the process that the workers of this machine are forked from: loads what tasks need, once for all."""

from __future__ import annotations

import gc

from pipeline.running.warm import load

load()
# What stands in memory now is shared with the workers as long as nobody writes to it; to look for cycles is to write.
gc.freeze()
