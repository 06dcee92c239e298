"""Logs runs with MLflow."""
