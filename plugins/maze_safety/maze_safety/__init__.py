"""Reinforcement learning under a limit of cost for Maze."""
