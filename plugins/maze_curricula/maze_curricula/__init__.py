"""Curricula and domain randomisation: teachers choose the parameters of the next episodes."""

from maze_environments.parameters import Choice, FloatRange, IntRange, Range

from maze_curricula.space import Space
from maze_curricula.teacher import Teacher

__all__ = ["Choice", "FloatRange", "IntRange", "Range", "Space", "Teacher"]
