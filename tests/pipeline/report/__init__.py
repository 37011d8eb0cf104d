"""Tests of ``report.html``: its figures and words, and how it looks in a browser."""
