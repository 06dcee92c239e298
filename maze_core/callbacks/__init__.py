"""Observers of a run: the console, the logs, the best checkpoint, early stopping."""
