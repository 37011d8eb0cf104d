"""Tests of the learners. Those in this folder itself are on the forms in which all of them take rows."""
