"""Rows as stages and learners see them: prepared, split into training and test rows, and read in blocks.

Open ``prepared.py`` first. ``parts.py`` writes and reads what is stored, ``layout.py`` says which are sparse, and
``block_sizes.py`` decides how many rows stand in a shard, a chunk and a block.
"""
