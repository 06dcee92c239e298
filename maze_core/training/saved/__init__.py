"""A run on disk: checkpoints, their files and checksums, metrics, and the record of the run."""
