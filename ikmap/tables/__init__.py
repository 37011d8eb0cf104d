"""Columns of any kind become features: the mathematics of encoding tables, without a file or a cluster.

    raw.py          a table as numbers: missing cells are NaN, words are codes
    statistics.py   what is counted of the training rows; adds up over parts in any grouping
    plan.py         which column is encoded how, and why
    encoders.py     one kind of encoding after the other
    encoder.py      all columns together: rows in, features and their names out; stored as plain data

Open ``plan.py`` first. What is computed for a row depends on no row beside it.
"""

from ikmap.tables.encoder import Encoder
from ikmap.tables.plan import Asked, ColumnPlan, choose, fit
from ikmap.tables.raw import CATEGORY, NUMBER, TIME, RawTable
from ikmap.tables.statistics import Statistics

__all__ = ["CATEGORY", "NUMBER", "TIME", "Asked", "ColumnPlan", "Encoder", "RawTable", "Statistics", "choose", "fit"]
