"""Environments in which several actors or agents act."""
