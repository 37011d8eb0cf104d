"""The Mondrian Kernel."""
