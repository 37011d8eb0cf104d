"""The work on a Dask cluster: tasks are sent, measured and recorded; loops are compiled beforehand.

Open ``engine.py`` first: a ``Stage`` runs a list of tasks and skips those that an earlier process has finished.
``dispatch.py`` sends them to the workers and deals with workers that die.
"""
