"""Policies of environments in which several actors or agents act."""
