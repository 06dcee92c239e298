"""Recordings to imitate."""

from tests.recorded import record as record
