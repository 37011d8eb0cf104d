"""Tests of the online learners, against versions that follow the papers line by line."""
