"""Checkpoints in which one value is another one, with fitting checksums, as only somebody who means it makes them.

A leaf is a number, a text, None, an array or a tensor of the saved state, or a tensor of the policy.
"""

from __future__ import annotations

import copy
import random
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from maze_core.run.saved.checkpoint import Checkpoint, read_checkpoint, write_checkpoint
from tests.attack.children import Ending, in_child, maze
from tests.attack.oracle import error_of, problems_of
from tests.attack.runs import DEMOS, ENV, RECORDED, RUN
from tests.attack.verdict import Verdict

SMALL = {
    "algorithm.epoch_length": 2,
    "algorithm.n_epochs": 2,
    "evaluation.n_episodes": 1,
    "model.hidden": "[4]",
    "callbacks.console": "null",
    "callbacks.tensorboard": "null",
    "seed": 1,
}
ROLLOUTS = {"algorithm.num_envs": 2, "algorithm.n_rollout_steps": 12}
REPLAY = {
    "algorithm.initial_buffer_size": 30,
    "algorithm.replay_buffer_size": 60,
    "algorithm.batch_size": 8,
    "algorithm.num_envs": 2,
}
CRITICS = {**REPLAY, "algorithm.critic_hidden": "[4]"}
GRU = {"model.memory": "gru", "model.memory_size": 3}
SEQUENCES = {**GRU, "algorithm.sequence_length": 4, "algorithm.burn_in": 2, "algorithm.prioritized": "true"}
PENDULUM, SPREAD = "Pendulum-v1", "mpe2:simple_spread_v3"
RUNS: dict[str, tuple[str, str, dict[str, object]]] = {
    "ppo": ("ppo", ENV, {
        **ROLLOUTS, "model.normalize_observations": "true", "algorithm.lr_schedule": "linear",
        "wrappers": "[normalize_reward, monitor]", "callbacks.early_stopping": "{patience: 5}",
    }),
    "a2c-memory": ("a2c", ENV, {**ROLLOUTS, **GRU, "algorithm.normalize_rewards": "true"}),
    "ppo-workers": ("ppo", ENV, {**ROLLOUTS, "runner": "local", "wrappers": "[normalize_reward]"}),
    "ppo-agents": ("ppo", SPREAD, ROLLOUTS),
    "impala": ("impala", ENV, {
        "algorithm.n_rollout_steps": 12, "algorithm.num_actors": 2, "algorithm.envs_per_actor": 1,
        "algorithm.normalize_rewards": "true",
    }),
    "sac": ("sac", PENDULUM, CRITICS),
    "td3": ("td3", PENDULUM, CRITICS),
    "fast_td3": ("fast_td3", PENDULUM, {**CRITICS, "algorithm.atoms": 5}),
    "flash_sac": ("flash_sac", PENDULUM, {
        **REPLAY, "algorithm.atoms": 5, "algorithm.policy_width": 4, "algorithm.critic_width": 4,
        "algorithm.policy_blocks": 1, "algorithm.critic_blocks": 1,
    }),
    "dqn": ("dqn", ENV, {**REPLAY, "algorithm.prioritized": "true", "algorithm.n_step": 3}),
    "dqn-memory": ("dqn", ENV, {**REPLAY, **SEQUENCES}),
    "apex": ("apex", ENV, {
        **REPLAY, "algorithm.num_actors": 2, "algorithm.num_envs": None, "algorithm.envs_per_actor": 1,
    }),
    "vdn": ("vdn", SPREAD, REPLAY),
    "es": ("es", ENV, {"algorithm.n_rollouts_per_update": 2, "algorithm.epoch_length": 1}),
    "cma_es": ("cma_es", ENV, {"algorithm.epoch_length": 1}),
    "alphazero": ("alphazero", "pettingzoo.classic:tictactoe_v3", {
        "algorithm.num_envs": 2, "algorithm.initial_buffer_size": 8, "algorithm.replay_buffer_size": 40,
        "algorithm.batch_size": 8, "algorithm.n_simulations": 2,
    }),
    "bc": ("bc", ENV, {"algorithm.dataset": DEMOS, "algorithm.batch_size": 16}),
    "dt": ("dt", ENV, {"algorithm.dataset": DEMOS, "algorithm.batch_size": 8}),
}  # fmt: skip
"""Algorithm, environment and settings of each kind of run."""
_REMOVED, _EXTRA = "removed", "extra"
PLAIN: dict[str, Any] = {
    "null": None, "list": [], "dict": {}, "text": "x", "-1": -1, "2**63": 2**63, "10**12": 10**12, "1e308": 1e308,
    "'nan'": "nan", "nan": float("nan"), "true": True, "half": 0.5, "lists": [[None]],
}  # fmt: skip
"""What stands in the place of a leaf."""
ARRAYS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "float16": lambda leaf: leaf.astype(np.float16),
    "int32": lambda leaf: np.nan_to_num(leaf).astype(np.int32),
    "longer": lambda leaf: np.concatenate([leaf, leaf[:1]]) if leaf.ndim and len(leaf) else leaf[None],
    "shorter": lambda leaf: leaf[:-1] if leaf.ndim else leaf[None, None],
    "one more axis": lambda leaf: leaf[..., None],
    "all nan": lambda leaf: np.full_like(leaf, np.nan) if leaf.dtype.kind == "f" else np.full_like(leaf, 1),
    "all far": lambda leaf: np.full_like(leaf, {"f": 1e30, "i": 2**30, "b": 1, "u": 255}[leaf.dtype.kind]),
    "all -1": lambda leaf: np.full_like(leaf, 1 if leaf.dtype.kind in "bu" else -1),
}
"""What becomes of an array or a tensor."""
_ONCE = 2
"""Leaves of those whose paths differ in numbers and names of networks alone, such as the moments of an optimizer."""
_FINE = ("contains numbers", "is not finite", "not finite")


def leaves(tree: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths of all leaves; an empty mapping or list is one."""
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    if not items or (isinstance(tree, list) and not tree):
        yield path
    for key, each in items:
        yield from leaves(each, (*path, key))


def alike(path: tuple[Any, ...]) -> str:
    """What leaves have in common that are treated alike."""
    text = "/".join(map(str, path))
    text = re.sub(r"\d+", "N", text)
    return re.sub(r"modules/.*|^policy/.*", "tensor", text)


def altered(tree: Any, path: tuple[Any, ...], how: str) -> Any:
    """A copy of the tree with another leaf; raises KeyError where it would be the same."""
    changed = copy.deepcopy(tree)
    holder = changed
    for key in path[:-1]:
        holder = holder[key]
    leaf = holder[path[-1]]
    if how == _REMOVED:
        del holder[path[-1]]
    elif how == _EXTRA:
        holder.update({"extra": copy.deepcopy(leaf)}) if isinstance(holder, dict) else holder.append(leaf)
    elif how in PLAIN:
        if type(PLAIN[how]) is type(leaf) and PLAIN[how] == leaf:
            raise KeyError(how)
        holder[path[-1]] = PLAIN[how]
    else:
        holder[path[-1]] = _changed(leaf, how)
    return changed


def _changed(leaf: Any, how: str) -> Any:
    array = leaf.detach().numpy() if isinstance(leaf, torch.Tensor) else leaf
    found = np.ascontiguousarray(ARRAYS[how](array))
    if found.dtype == array.dtype and found.shape == array.shape and np.array_equal(found, array):
        raise KeyError(how)
    return torch.from_numpy(found.copy()) if isinstance(leaf, torch.Tensor) else found


def ways(leaf: Any, path: tuple[Any, ...]) -> list[str]:
    """How a leaf is altered; the policy's are tensors in any case."""
    plain = () if path[0] == "policy" else PLAIN
    return [*plain, *(ARRAYS if hasattr(leaf, "dtype") else ()), _REMOVED, _EXTRA]


class Leaves:
    """Cases of one kind of run: a leaf and what stands there."""

    def __init__(self, subject: str, scratch: Path, seed: int = 1) -> None:
        self._subject, self._scratch = subject, scratch
        self._base, self._folder = scratch / "base", scratch / "world"
        self._base.mkdir(parents=True, exist_ok=True)
        algorithm, env, settings = RUNS[subject]
        chosen = {**SMALL, **settings}
        command: list[object] = ["train", algorithm, "--env", env, "--preset", "none", "--run-dir", RUN]
        command += [part for key, value in chosen.items() if value is not None for part in ("--set", f"{key}={value}")]
        self._workers = chosen.get("runner") == "local"
        for each in [RECORDED] * (DEMOS in chosen.values()) + [command]:
            if (ending := self._typed(each, self._base)).code:
                raise RuntimeError(f"a healthy run ended with {ending.code}: {ending.err}")
        saved = read_checkpoint(self._last(self._base))
        self._tree = {"policy": saved.model, "state": saved.state}
        self.count = 0
        """Leaves that are altered."""
        self._cases = self._chosen(random.Random(f"{seed} {subject}"))

    def _chosen(self, chance: random.Random) -> dict[str, tuple[tuple[Any, ...], str]]:
        paths = list(leaves(self._tree))
        chance.shuffle(paths)
        seen: dict[str, int] = {}
        cases: list[tuple[int, tuple[Any, ...], str]] = []
        for path in paths:
            seen[alike(path)] = seen.get(alike(path), 0) + 1
            if seen[alike(path)] <= _ONCE:
                leaf = self._tree
                for key in path:
                    leaf = leaf[key]
                shuffled = ways(leaf, path)
                chance.shuffle(shuffled)
                cases += [(number, path, how) for number, how in enumerate(shuffled)]
        cases.sort(key=lambda case: case[0])
        self.count = sum(number == 0 for number, *_ in cases)
        return {f"{'/'.join(map(str, path))} {how}": (path, how) for _, path, how in cases}

    def names(self, count: int) -> list[str]:
        """So many: each leaf once, then each in another way, and so on."""
        return list(self._cases)[:count]

    def try_(self, name: str) -> Verdict:
        """Alter the leaf, go on with the run, and play an evaluation with it."""
        path, how = self._cases[name]
        verdict = Verdict(f"leaves/{self._subject}/{name}", f"altered checkpoints: {self._subject}", name)
        shutil.rmtree(self._folder, ignore_errors=True)
        shutil.copytree(self._base, self._folder)
        last = self._last(self._folder)
        try:
            tree = altered(self._tree, path, how)
        except KeyError:
            return verdict
        write_checkpoint(last, Checkpoint(tree["policy"], tree["state"], read_checkpoint(last).extents))
        resume = self._typed(["resume", RUN, "--set", "algorithm.n_epochs=3"], self._folder)
        verdict.what = f"{name}: {error_of(resume)}" if resume.code else name
        verdict.problems = _problems(resume)
        if path[0] == "policy" or path[1] not in ("learner", "modules", "algorithm"):
            shutil.rmtree(self._folder / RUN / "checkpoints" / "best", ignore_errors=True)
            ending = self._typed(["eval", RUN, "-n", "1"], self._folder)
            verdict.problems += _problems(ending)
        return verdict

    def _typed(self, command: Sequence[object], folder: Path) -> Ending:
        return in_child(maze(command, workers=self._workers), folder, self._scratch)

    @staticmethod
    def _last(folder: Path) -> Path:
        return folder / RUN / "checkpoints" / "last"


def _problems(ending: Ending) -> list[str]:
    found = problems_of(ending, (0, 2))
    return [] if ending.code == 1 and any(text in ending.err for text in _FINE) else found
