"""What callbacks share that log runs elsewhere: points of curves, settings, under which id a run is known."""
