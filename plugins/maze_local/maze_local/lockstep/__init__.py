"""Environments stepped in worker processes."""
