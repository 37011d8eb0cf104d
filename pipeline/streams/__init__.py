"""Learning from a stream: each block of rows is predicted first and learned from afterwards, by several learners.

Open ``stream.py`` first, the tasks; ``schedule.py`` decides which of them may run next, and ``intake.py`` takes in rows
that arrive on a pipe or in a directory.
"""
