"""Moved: an import raises an error that names the new place."""

from maze_core.moved import moved_module

raise moved_module(__name__)
