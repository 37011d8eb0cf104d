"""The commands as Prefect flows: a form with their options, a task for each stage, and artifacts to look at.

Open ``flows.py`` first. Nothing here is imported where no Prefect API is set up.
"""
