"""Deep Q-learning for Maze: DQN with the parts of Rainbow, and PQN."""
