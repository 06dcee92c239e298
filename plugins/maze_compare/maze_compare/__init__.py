"""Runs beside each other: what is known of each, where their configurations differ, their learning curves."""
