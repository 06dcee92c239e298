"""The checks of distributions find what is wrong with one, and an author's own pass them."""

from pathlib import Path

import pytest
from maze_devkit.kit import checks

SOURCE = (Path(__file__).parents[1] / "distributions" / "outsider.py").read_text(encoding="utf-8")
HEAVY = ("import", "global_state")
"""These start processes, and other tests try them."""
MIXTURE, LOGISTIC, EPSILON = "MixtureFamily", "TruncatedLogisticFamily", "EpsilonSoftmaxFamily"
FAULTS = {
    "a density of canonical actions": (MIXTURE, ".sum(-1) - self.scale.log_volume", ".sum(-1)", "sampling"),
    "an entropy of them": (MIXTURE, ".sum((-1, -2)) + self.scale.log_volume", ".sum((-1, -2))", "sampling"),
    "samples that are too wide": (MIXTURE, "log_std.exp(), normal)", "1.3 * log_std.exp(), normal)", "sampling"),
    "densities that are not summed": (
        MIXTURE,
        "self._log_density(sample).sum(-1)",
        "self._log_density(sample)",
        "shapes",
    ),
    "chance of its own": (MIXTURE, "torch.addcmul(mean,", "torch.addcmul(mean + torch.rand(1),", "shapes"),
    "a batch of fixed size": (MIXTURE, "parameters.reshape(-1,", "parameters.reshape(len(parameters),", "exports"),
    "another class": (MIXTURE, "gives = Mixture", "gives = FamilyHead", "takes"),
    "actions beyond the bounds": (LOGISTIC, "1e-6)).clamp(-1, 1)", "1e-6)) + 1", "shapes"),
    "a sample that hides a gradient": (
        LOGISTIC,
        "(self.centre + self.w",
        "(self.centre.detach() + self.w",
        "gradients",
    ),
    "a mode without a gradient": (LOGISTIC, "return self.centre\n", "return self.centre.detach()\n", "gradients"),
    "a scale without limits": (LOGISTIC, "log_width.clamp(-3, 1).exp()", "(50 * raw + log_width).exp()", "gradients"),
    "a mask that is ignored": (EPSILON, "if mask is None else mask != 0", "", "masks"),
    "a KL the other way round": (EPSILON, "exp() * (self.log_probs - other", "exp() * (other.log_probs - self", "kl"),
    "other probabilities": (EPSILON, "(self.log_probs + noise)", "(2 * self.log_probs + noise)", "sampling"),
}
PASS = [(MIXTURE, {"kl", "masks"}), (LOGISTIC, {"kl", "masks"}), (EPSILON, set())]


@pytest.mark.parametrize(("family", "idle"), PASS)
def test_an_authors_own_pass(publish, findings, family, idle):
    found = findings(*publish("distribution", f"{SOURCE}\n\nTested = {family}\n"), HEAVY)
    failed = [str(each) for each in found.values() if each.state == "failed"]
    assert not failed, "\n".join(failed)
    assert {name for name, each in found.items() if each.state == "not applicable"} == idle | {"hooks"}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found(publish, findings, fault):
    family, before, after, name = FAULTS[fault]
    assert before in SOURCE, before
    plugin = publish("distribution", f"{SOURCE.replace(before, after)}\n\nTested = {family}\n")
    others = [each.name for each in checks("distribution") if each.name != name]
    assert findings(*plugin, others)[name].state == "failed"
