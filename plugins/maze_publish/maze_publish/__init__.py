"""Publishes trained policies, and opens published ones by their address."""
