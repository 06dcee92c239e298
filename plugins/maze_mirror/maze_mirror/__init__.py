"""Copies runs to shared storage while they train, and fetches them back."""
