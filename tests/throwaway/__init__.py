"""Methods and papers as strangers write them: whatever can be added must carry these, without an edit elsewhere."""
