"""What several tests share: small data, runs and stores, stand-ins for hardware, and ``pinned.json``.

Open ``runs.py`` first. No test stands here.
"""
