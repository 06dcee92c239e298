"""Trust region policy optimisation and the plain policy gradient for Maze."""
