"""Collecting rollouts."""
