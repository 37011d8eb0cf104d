"""Linear SVMs and logistic regression, solved by dual coordinate descent to a certified duality gap.

Open ``linear_svm.py`` first. ``descent.py`` solves one problem on rows in memory, ``class_descent.py`` one for each
class, ``block_minimization.py`` works on rows in a file, and ``cocoa.py`` on parts of the rows that many workers hold.
"""
