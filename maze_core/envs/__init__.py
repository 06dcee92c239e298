"""Environments: spaces as trees, vectorised stepping, and the sources that build them. Nothing here imports torch."""
