"""The commands: ``python -m flows.batch``, ``flows.online``, ``flows.score`` and ``flows.reproduce``.

Each command reads its options (``options/``) and calls what does the work (``runs/``), as a Prefect flow (``prefect/``)
where a Prefect API is set up. Open ``batch.py`` first.
"""
