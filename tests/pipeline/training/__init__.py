"""Tests of the stage that trains: learners on rows, and one problem solved by many workers."""
