"""The memories that come with Maze, plugins of the group `maze.memories`, and how a model chooses one."""
