"""Rows as stages and learners see them: prepared, split into training and test rows, and read in blocks.

Open ``prepared.py`` first. ``block_sizes.py`` decides how many rows stand in a shard, a chunk and a block.
"""
