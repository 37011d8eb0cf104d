"""Tests of how tasks are run: dispatch, records, compiling, models on workers, and full disks."""
