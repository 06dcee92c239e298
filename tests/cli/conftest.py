"""Fake distributions, as the tests of plugins have them."""

from tests.plugins.conftest import installation  # noqa: F401 — a fixture
