"""Tests of ``cluster/``: how Dask clusters are started on this machine, and what their settings and manifests say."""
