"""Methods, tasks and a paper as strangers would write them, with tests that each works without an edit elsewhere."""
