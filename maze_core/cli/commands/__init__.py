"""The core's own commands, one file each."""
