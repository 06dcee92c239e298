"""What off-policy algorithms share: replay and what fills it, critics of states and actions, target networks."""
