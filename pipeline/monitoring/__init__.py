"""Messages of a run while it works: progress bars, log lines, and counters for Prometheus.

Open ``events.py`` first: every stage reports to the ``Events`` that are defined there.
"""
