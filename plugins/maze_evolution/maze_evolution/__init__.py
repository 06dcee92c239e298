"""CMA-ES and population-based training for Maze."""
