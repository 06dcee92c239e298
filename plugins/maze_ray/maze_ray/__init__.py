"""The runner `ray`: environments, actors and evaluators on a Ray cluster."""
