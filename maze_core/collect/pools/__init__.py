"""Runners: how environments are stepped and workers run, in this process or in others."""
