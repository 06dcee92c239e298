"""Replay: the buffers, their priorities, what they store of frames, and their files."""
