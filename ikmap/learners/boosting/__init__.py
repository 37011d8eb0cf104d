"""Gradient boosting, a learner that grows its own cells: bins, trees by histograms, losses and rounds."""
