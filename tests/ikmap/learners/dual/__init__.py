"""Tests of the linear SVM and logistic regression: right solutions, and the same bits whatever the threads."""
