"""The data plane: data sets, the Zarr store, stages over a Dask client, runs and reports."""
