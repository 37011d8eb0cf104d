"""Tests of ``flows/`` in this process: the options of the commands, and Prefect's form for them."""
