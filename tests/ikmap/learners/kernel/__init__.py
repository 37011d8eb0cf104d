"""Tests of SVMs with an exact kernel, against scikit-learn's."""
