"""Data sets that are known by name: where their files are, how they are downloaded and how they are prepared.

Open ``datasets.toml`` first, which lists them and explains its keys; ``registry.py`` reads it.
"""
