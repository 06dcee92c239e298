"""What tests of Maze and of plugins share."""
