"""Networks that rate states and actions, and the actions of an environment as one tensor."""
