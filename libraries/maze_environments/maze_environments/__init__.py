"""What environments declare and show: parameters that change from episode to episode, masks of actions, pictures."""
