"""The work of a command after its options are read: find the data, open the run directory, start the cluster, run.

Open ``batch.py`` first; ``run_pipeline`` there serves ``flows.online`` as well.
"""
