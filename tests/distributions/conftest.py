"""A package of distributions that an outsider has published, in a folder of its own."""

from pathlib import Path

import pytest

CLASSES = {
    "mixture": "MixtureFamily",
    "truncated_logistic": "TruncatedLogisticFamily",
    "epsilon_softmax": "EpsilonSoftmaxFamily",
}


@pytest.fixture
def outside(outsider):
    """The package `maze_outside` is installed."""
    source = Path(__file__).with_name("outsider.py").read_text(encoding="utf-8")
    return outsider("maze_outside", source, {"distribution": CLASSES})
