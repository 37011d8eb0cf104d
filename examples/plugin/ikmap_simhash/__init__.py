"""Methods for ikmap, as an example: nothing is imported here, so that --help answers at once."""
