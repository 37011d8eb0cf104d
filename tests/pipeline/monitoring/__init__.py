"""Tests of progress as bars and log lines, and of names made safe to show."""
