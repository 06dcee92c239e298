"""One module for each library: its environments as functions that know nothing of it."""
