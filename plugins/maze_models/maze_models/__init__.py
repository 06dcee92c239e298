"""Models beside `mlp`: for images, for Dict observations, residual ones, and those of a user's own code."""
