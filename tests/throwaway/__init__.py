"""Methods as strangers would write them, one file each: fixtures of tests, which make them known and nothing else."""
