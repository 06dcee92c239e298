"""The callback that shows a run in the console."""
