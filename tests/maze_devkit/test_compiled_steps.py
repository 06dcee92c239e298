"""An algorithm whose steps may be compiled: the check of it, and what it finds in broken ones."""

import pytest
from maze_devkit.kit import checks

from tests.maze_devkit.sources import ALGORITHM

OTHERS = [check.name for check in checks("algorithm") if check.name != "compiles"]
COMPILED = (
    ALGORITHM.replace("    def state(", "    def loss_constants(self):\n        return ()\n\n    def state(")
    .replace(
        "        yield rows\n",
        '        rows.extra["advantage"] = normalized(rows.extra["advantage"])\n        yield rows\n',
    )
    .replace('normalized(batch.extra["advantage"])).mean()', 'batch.extra["advantage"]).mean()')
)
"""The sound algorithm, which says that its loss depends on nothing else."""
TOTAL = "policy_loss + 0.5 * value_loss,"
BROKEN = {
    "a count of the run": ("policy_loss * (1 + self.run.updates) + value_loss,", "other results for "),
    "a variable of the module": (
        "policy_loss + (HEARD.append(1) or 1) * value_loss * len(HEARD),",
        "other results for ",
    ),
    "the value of a tensor": ("policy_loss + value_loss * value_loss.item(),", "value"),
    "an attribute that it sets": ("setattr(self, 'last', value) or policy_loss + value_loss,", "sets 'last'"),
}


@pytest.fixture
def found(publish, findings):
    """`found(source)`: what the check finds."""
    return lambda source: findings(*publish("algorithm", source), OTHERS)["compiles"]


def test_an_algorithm_whose_loss_can_be_compiled_passes(found):
    finding = found(COMPILED)
    assert finding.state == "passed", finding


def test_one_that_declares_nothing_is_not_asked(found):
    finding = found(ALGORITHM)
    assert (finding.state, finding.what) == ("not applicable", "it does not define `loss_constants`")


@pytest.mark.parametrize("mistake", BROKEN)
def test_one_that_depends_on_more_is_caught(mistake, found):
    new, words = BROKEN[mistake]
    assert COMPILED.count(TOTAL) == 1
    source = COMPILED.replace(TOTAL, new)
    finding = found(source.replace("class Config", "HEARD = []\n\n\nclass Config"))
    assert finding.state == "failed", finding
    assert finding.what.startswith("its steps cannot be compiled: "), finding
    assert words in finding.what
