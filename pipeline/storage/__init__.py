"""The files of a run: the run directory, its Zarr store, the records of finished tasks, and stored models.

Open ``rundir.py`` first for the directory and ``store.py`` for the arrays. ``durable.py`` flushes files and checks
them.
"""
