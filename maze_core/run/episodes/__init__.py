"""Whole episodes: evaluations, recordings, films, and their statistics."""
