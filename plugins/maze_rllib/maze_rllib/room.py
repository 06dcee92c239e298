"""The resources that RLlib's processes reserve: whether a cluster has them at all, and has them free in time.

Ray would wait for ever, without a word, for what does not exist.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from maze_core import ConfigError, RunError

Bundle = Mapping[str, float]
"""What one process reserves, by Ray's names: `CPU`, `GPU` and names of the user's own."""
_PATIENCE = 45.0
"""Seconds for resources that others use to become free, or for an autoscaler to bring nodes."""
_SETTINGS = {
    ("env runner", "CPU"): "runner.workers",
    ("env runner", "GPU"): "algorithm.num_gpus_per_env_runner",
    ("env runner", ""): "algorithm.custom_resources_per_env_runner",
    ("learner", "CPU"): "algorithm.num_learners",
    ("learner", "GPU"): "algorithm.num_gpus_per_learner",
    ("learner", ""): "algorithm.custom_resources_per_learner",
}


def bundles(rllib: Any) -> list[tuple[str, Bundle]]:
    """Return what each of RLlib's processes reserves, with what it is."""
    gpus = rllib.num_gpus_per_learner or 0
    # A learner on a GPU that is `auto` reserves no CPU beside it.
    cpus = (0 if gpus else 1) if rllib.num_cpus_per_learner == "auto" else rllib.num_cpus_per_learner
    runner = {
        "CPU": rllib.num_cpus_per_env_runner,
        "GPU": rllib.num_gpus_per_env_runner,
        **rllib.custom_resources_per_env_runner,
    }
    learner = {"CPU": cpus, "GPU": gpus, **rllib.custom_resources_per_learner}
    found = [("env runner", runner)] * rllib.num_env_runners + [("learner", learner)] * rllib.num_learners
    return [(what, {kind: float(count) for kind, count in needed.items() if count}) for what, needed in found]


def check_exists(needed: Sequence[tuple[str, Bundle]], nodes: Sequence[Bundle]) -> None:
    """Refuse processes that a cluster of these nodes can never start.

    Raises:
        ConfigError: no node has what one process needs, or all nodes together have too little.
    """
    total = _sum(nodes)
    for what, bundle in needed:
        for kind, count in bundle.items():
            most = max((node.get(kind, 0.0) for node in nodes), default=0.0)
            if count > most:
                has = f"no node of the cluster has more than {most:g}" if most else "the cluster has none"
                raise _lacking(f"each {what} needs {_amount(kind, count)}, and {has}", what, kind)
    everything = _sum(bundle for _, bundle in needed)
    for kind, count in everything.items():
        if count > total.get(kind, 0.0):
            what = next(what for what, bundle in needed if kind in bundle)
            text = f"{_all(needed)} need {_amount(kind, count)}, and the cluster has {total.get(kind, 0.0):g}"
            raise _lacking(text, what, kind)


def wait_until_free(needed: Sequence[tuple[str, Bundle]], patience: float = _PATIENCE) -> None:
    """Return when all processes can start at once.

    Raises:
        RunError: that has not been so within `patience` seconds.
    """
    import ray
    from ray.util.placement_group import placement_group, remove_placement_group

    reserved = [dict(bundle) for _, bundle in needed if bundle]
    if not reserved:
        return
    group = placement_group(reserved)
    try:
        if not group.wait(patience):
            free, total = ray.available_resources(), ray.cluster_resources()
            everything = _sum(bundle for _, bundle in needed)
            words = [f"{free.get(kind, 0.0):g} of {_amount(kind, total.get(kind, 0.0))}" for kind in everything]
            wanted = ", ".join(_amount(kind, count) for kind, count in everything.items())
            raise RunError(
                f"{_all(needed)} need {wanted}, and the cluster has free {', '.join(words)}, after {patience:g} s\n"
                "Next: the same command when others have ended; or fewer, by runner.workers and algorithm.num_learners"
            )
    finally:
        remove_placement_group(group)


def _lacking(text: str, what: str, kind: str) -> ConfigError:
    where = _SETTINGS.get((what, kind)) or _SETTINGS[what, ""]
    return ConfigError(text, where, "Next: ask for less; or add nodes to the cluster, which `ray status` shows")


def _amount(kind: str, count: float) -> str:
    return f"{count:g} {kind}s" if kind in ("CPU", "GPU") and count != 1 else f"{count:g} {kind}"


def _all(needed: Sequence[tuple[str, Bundle]]) -> str:
    counts = Counter(what for what, _ in needed)
    return " and ".join(f"{count} {what}{'s' if count > 1 else ''}" for what, count in counts.items())


def _sum(bundles: Iterable[Bundle]) -> Counter[str]:
    total: Counter[str] = Counter()
    for bundle in bundles:
        total.update(bundle)
    return total
