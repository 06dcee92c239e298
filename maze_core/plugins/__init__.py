"""How plugins are found, validated and called."""
