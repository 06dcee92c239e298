"""What every room builds on: errors, files, seeds, processes, JSON and texts."""
