"""Methods and papers as strangers write them, fixtures of tests: each is carried without an edit elsewhere."""
