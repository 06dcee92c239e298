"""How plugins are found and called."""
