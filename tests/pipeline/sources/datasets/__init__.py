"""Tests of the data sets that are known by name: what their definitions may say, and how they are downloaded."""
