"""Scores of novelty on cells.

Open ``cell_scores.py`` first: the models. ``masses.py`` counts rows in cells, ``depths.py`` finds how deep those of
isolation trees lie, ``fading.py`` counts the rows of a stream.
"""
