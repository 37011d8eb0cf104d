"""Tests of tables as they come: files of any format, column plans, encoding in runs, scoring."""
