"""The options of the commands, each declared once for command line, run.toml, Prefect's form and docs/options.md.

Open ``batch.py`` first for the options themselves, and ``option.py`` for what a declaration says.
"""
