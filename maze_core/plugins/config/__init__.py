"""The configuration of a run: its models and how it is assembled."""
