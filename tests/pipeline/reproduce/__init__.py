"""Tests of the page that shows a paper's numbers beside ours."""
