"""What algorithms share that learn from rollouts: advantages, losses, recurrent values."""
