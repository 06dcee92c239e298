"""The env sources of the core: where environments come from."""
