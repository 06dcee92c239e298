"""The callbacks that write a run's curves, and what loggers of other distributions share with them."""
