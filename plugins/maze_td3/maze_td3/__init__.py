"""TD3 and DDPG for Maze."""
