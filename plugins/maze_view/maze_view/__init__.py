"""Shows runs and recordings in a browser: one self-contained HTML file."""
