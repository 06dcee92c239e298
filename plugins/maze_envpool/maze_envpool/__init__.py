"""EnvPool's environments for Maze."""
