"""Tests of what the commands do before and after a run, in this process."""
