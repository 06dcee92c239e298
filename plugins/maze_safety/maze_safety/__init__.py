"""Constraints for Maze: limits that a policy keeps while it learns."""
