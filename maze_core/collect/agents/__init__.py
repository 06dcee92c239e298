"""Agents: what chooses actions, in training and outside of it."""
