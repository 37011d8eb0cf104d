"""The other stages, one file each: ingest, select, partition, cells, evaluate; and shuffle, for streams.

Open ``cells.py`` first, the shortest complete one: it makes a list of tasks, runs them and sums up their records. The
files that begin with ``select_`` are the parts of the search for psi, C and other settings.
"""
