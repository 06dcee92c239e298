"""A run as observers see it, for every test here."""

from tests.observed import make_epoch, make_run

__all__ = ["make_epoch", "make_run"]
