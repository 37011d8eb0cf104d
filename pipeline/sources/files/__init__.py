"""Files as bytes: local or on any fsspec URL, compressed, in another encoding; folders, globs and lists of them."""
