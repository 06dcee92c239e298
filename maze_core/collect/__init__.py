"""Collecting: agents choose actions, a stepper plays them, and sinks receive the transitions."""
