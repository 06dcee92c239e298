"""The command line: commands, and the callbacks that print and log."""
