"""An algorithm whose batches may be filled up: the check of it, and what it finds in broken ones."""

import pytest
from maze_devkit.kit import checks

from tests.maze_devkit.sources import ALGORITHM

OTHERS = [check.name for check in checks("algorithm") if check.name != "row_weights"]
WEIGHED = (
    ALGORITHM.replace("    needs_critic = True\n", "    needs_critic = True\n    weighs_rows = True\n")
    .replace(
        "from maze_core.plugins.config", "from maze_core.data.batch import mean_of_rows\nfrom maze_core.plugins.config"
    )
    .replace(
        "        yield rows\n",
        '        rows.extra["advantage"] = normalized(rows.extra["advantage"])\n        yield rows\n',
    )
    .replace(
        '-(log_prob * normalized(batch.extra["advantage"])).mean()',
        'mean_of_rows(-log_prob * batch.extra["advantage"], batch.extra)',
    )
    .replace(
        '(value - batch.extra["target"]).square().mean()',
        'mean_of_rows((value - batch.extra["target"]).square(), batch.extra)',
    )
)
"""The sound algorithm, with weights."""
BROKEN = {
    "a mean without weights": (
        'mean_of_rows(-log_prob * batch.extra["advantage"], batch.extra)',
        '(-log_prob * batch.extra["advantage"]).mean()',
        "rows that weigh nothing change the metric 'policy'",
    ),
    "a metric without weights": (
        '"policy": policy_loss.detach()',
        '"policy": policy_loss.detach(), "error": value.detach().mean()',
        "rows that weigh nothing change the metric 'error'",
    ),
    "advantages that are normalised in the loss": (
        '-log_prob * batch.extra["advantage"]',
        '-log_prob * normalized(batch.extra["advantage"])',
        "rows that weigh nothing change the ",
    ),
    "a loss that fails with weights": (
        "        distribution, value = policy(batch.obs)\n",
        "        assert len(batch.extra) == 3\n        distribution, value = policy(batch.obs)\n",
        "the loss of a batch that was filled up fails: ",
    ),
}


@pytest.fixture
def found(publish, findings):
    """`found(source)`: what the check finds."""
    return lambda source: findings(*publish("algorithm", source), OTHERS)["row_weights"]


def test_an_algorithm_that_weighs_rows_passes(found):
    assert found(WEIGHED).state == "passed"


def test_one_that_declares_nothing_is_not_asked(found):
    finding = found(ALGORITHM)
    assert (finding.state, finding.what) == ("not applicable", "it does not declare `weighs_rows`")


@pytest.mark.parametrize("mistake", BROKEN)
def test_one_that_does_not_weigh_them_is_caught(mistake, found):
    old, new, words = BROKEN[mistake]
    assert WEIGHED.count(old) == 1
    finding = found(WEIGHED.replace(old, new))
    assert finding.state == "failed", finding
    assert finding.what.startswith(words), finding
