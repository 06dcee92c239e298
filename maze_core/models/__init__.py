"""Policies: networks, action distributions and the bundled models."""
