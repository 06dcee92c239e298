"""A run on disk: its folder, checkpoints, checksums, metrics, and the record of the run."""
