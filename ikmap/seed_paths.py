"""First numbers of the paths of random generators; the paths of partitionings begin with their own number instead.

``generator(seed, FOLDS)`` draws what no other part of the program draws with the same seed. Models and results depend
on these numbers, so that no number is ever changed. Two are not alone, for as long as results have been recorded:

- :data:`PASSES` and :data:`SHUFFLED_BLOCKS` are the same number. One serves learners of streams and the other solvers
  that visit blocks many times, so that no learner draws from both.
- :data:`ENCODING` is also the path of partitioning 20, which draws other rows of other sets.
"""

from __future__ import annotations

ENCODING = 20
"""Training rows from which quantiles and medians of an encoding are found; also the path of partitioning 20."""
FOLDS = 1_000_001
"""Folds of an estimator's cross-validation, in memory."""
DISTANCES = 1_000_005
"""Rows from which the typical distance is taken."""
VALIDATION = 1_000_006
"""Rows on which an estimator compares lifetimes."""
BOOSTING_EDGES = 1_000_012
"""Rows that the edges of boosting's bins are taken from."""
BOOSTING_HELD_OUT = 1_000_013
"""Rows that boosting holds out to end its rounds."""
BOOSTING_DRAWS = 1_000_014
"""Rows and columns that each tree of boosting is grown on."""
BOOSTING_ROUNDING = 1_000_015
"""Hessians that each tree of boosting rounds up."""
STACKING_FOLDS = 1_000_020
"""Folds of stacking."""
STACKING_CHOICE = 1_000_021
"""Rows on which stacking chooses psi and C."""
STACKING_REFITS = 1_000_022
"""Seeds of further models of the same part of a sum."""
EPOCHS = 1_000_023
"""Order of the rows in each pass of an estimator that learns row after row."""
PERMUTATION = 2_000_001
"""The permutation that splits the rows of a run and puts them in order."""
BLOCKS = 2_000_002
"""Runs of rows that make blocks, and parts, to learn from."""
PASSES = 2_000_003
"""Rows of each block of a learner of streams."""
SHUFFLED_BLOCKS = 2_000_003
"""Rows of each block for a solver that visits the rows in small blocks, many times."""
CANDIDATE_ROWS = 2_000_004
"""Rows on which candidates on rows are compared."""
CALIBRATION = 2_000_005
"""Rows that a calibration learns from."""
FITTED_SPLIT = 2_000_006
"""The key that splits rows by hashes."""
PIPELINE_FOLDS = 2_000_007
"""Folds of the cross-validation of a run."""
IMPORTANCE = 2_000_008
"""Rows and permutations by which the importance of columns is measured."""
COCOA = 3_000_001
"""Blocks and rows in the rounds of CoCoA+."""
SIDE_BY_SIDE = 4_000_001
"""Seeds of maps side by side."""
GCWS = 4_000_002
"""Keys of consistent weighted sampling."""
REDRAWN = 4_000_003
"""Seeds of partitionings that are drawn anew."""
