"""Ridge regression on cells.

Open ``ridge.py`` first: what is minimised, and one process that does it. ``conjugate_gradients.py`` is the algorithm,
as rounds that ask for sums over the rows; ``sums.py`` adds these up, piece by piece, wherever the rows are.
"""
