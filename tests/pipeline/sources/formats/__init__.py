"""Tests of the readers: each format, damaged and hostile files, and files on web servers."""
