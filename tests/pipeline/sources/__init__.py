"""Tests of the sources of rows: files of any format, column plans, data sets; and of tables as runs take them."""
