"""Pictures of networks, drawn as SVG."""
