"""The wrappers of the core, and what wrappers carry across episodes."""
