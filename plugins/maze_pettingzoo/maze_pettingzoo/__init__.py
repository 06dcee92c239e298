"""PettingZoo's multi-agent environments for Maze."""
