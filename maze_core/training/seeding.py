"""Not here any more: an import says where it went."""

from maze_core.moved import moved_module

raise moved_module(__name__)
