"""Learners that follow the splits of cells, so that one pass tries all values of a field of a map.

``columns.py`` numbers the feature columns as cells come to be. ``ridge.py`` solves ridge regression exactly at every
checkpoint, ``gradient.py`` goes on with stochastic gradient descent from copied weights, for several losses.
"""
