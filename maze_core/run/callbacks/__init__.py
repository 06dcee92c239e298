"""Callbacks that decide about a run: its best checkpoint, and its early end."""
