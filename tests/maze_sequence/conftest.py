"""Recordings to learn from."""

from tests.recorded import record as record
