"""Compares an exported policy with the network it was made from, on observations of the run's own environment."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium import spaces

from maze_core import ConfigError, EpisodeSeeds, NetworkAgent, Purpose, take_rows, to_tensors, torch_generator
from maze_core.collect.agents.network import SharedNoise
from maze_core.collect.stepper import Stepper
from maze_core.envs.codecs import ActionCodec
from maze_core.envs.spaces import allocate, float_bounds, leaves, space_specs, start_of
from maze_export.noise import joined

if TYPE_CHECKING:
    from gymnasium import Space

    from maze_core import Policy, TensorTree, Tree, VectorEnv
    from maze_core.collect.agents.agent import Choice
    from maze_core.envs.vector import StepResult
    from maze_export.formats import Play
    from maze_export.graph import ExportedPolicy

ROWS = 1000
"""Observations to compare on."""
BATCHES = (1, 3, 64)
"""Sizes of the batches in which they pass the exported policy."""
TOLERANCE = 1e-5
"""Largest difference between float actions: relative, and as a share of half the range of a bounded Box."""
_SECONDS = 60.0
# After which a slow environment need not give more observations.
ENVS = 4
"""Environments stepped side by side for them."""


def recorded(policy: Policy, env: VectorEnv, seed: int, rows: int) -> tuple[Tree, Tree]:
    """Return observations of episodes that the policy plays with sampled actions, and what it remembers before each.

    Both have leaves [R, …], R up to `rows`; there is nothing remembered without a memory.
    """
    noise = torch_generator(seed, Purpose.ROLLOUT_NOISE)
    agent = NetworkAgent(policy, SharedNoise(env.num_envs, noise))
    stepper = Stepper(env, EpisodeSeeds(seed, Purpose.ROLLOUT_EPISODES, stride=env.num_envs))
    seen = _Seen(env)
    stepper.reset(seen.next_buffer({}))
    deadline = time.monotonic() + _SECONDS
    while len(seen.obs) * env.num_envs < rows and time.monotonic() < deadline:
        if agent.memory is not None:
            stepper.begin_episodes(agent)
            seen.state.append(agent.memory.snapshot(env.num_envs))
        stepper.step(agent, seen)
    return _joined(seen.obs, rows), _joined(seen.state, rows)


def _joined(trees: list[Tree], rows: int) -> Tree:
    return {key: np.concatenate([tree[key] for tree in trees])[:rows] for key in (trees[0] if trees else ())}


class _Seen:
    """A sink that keeps the observations that were acted on."""

    def __init__(self, env: VectorEnv) -> None:
        self.obs: list[Tree] = []
        self.state: list[Tree] = []
        """What was remembered before each of them."""
        self._specs, self._rows = space_specs(env.observation_space, "observation"), env.num_envs

    def next_buffer(self, obs: Tree) -> Tree:
        """Return new arrays, since the current ones are kept."""
        return allocate(self._specs, (self._rows,))

    def add(self, obs: Tree, choice: Choice, result: StepResult, following: Tree) -> None:
        """Keep the observations."""
        self.obs.append(obs)


def check_agreement(exported: ExportedPolicy, play: Play, obs: Tree, state: Tree, seed: int) -> None:
    """Compare the actions that environments execute, and what is remembered, with those of an exported policy.

    Args:
        exported: the policy in torch.
        play: runs the exported one.
        obs: what to act on, leaves [R, …] as policies see them.
        state: what the policy remembers before, leaves [R, …]; empty without a memory.
        seed: decides the noise of a stochastic policy.

    Raises:
        ConfigError: they differ, or the exported policy fails.
    """
    interface, rng = exported.interface, np.random.default_rng(seed)
    rows = len(next(iter(obs.values())))
    noise = {leaf.name: _drawn(rng, str(leaf.draw), (rows, *leaf.shape)) for leaf in interface.noise}
    chosen, executed, after = _actions_of_torch(exported, obs, state, noise)
    before = {leaf.name: state[leaf.name.removeprefix("state/")] for leaf in interface.state}
    starts = {leaf.key: start_of(leaf.space) for leaf in leaves(interface.observation_space, "observation")}
    observed = {
        leaf.name: obs[key] if starts[key] is None else obs[key] + starts[key]
        for key, leaf in interface.observations.items()
    }
    for size in BATCHES:
        for rows_played, inputs in _chunks({**observed, **before, **noise}, rows, size):
            count = len(next(iter(inputs.values())))
            try:
                outputs = play(inputs)
            except Exception as error:
                reason = str(error).strip().partition("\n")[0]
                raise _refused(f"it fails with a batch of {count}: {reason:.300}") from error
            for leaf in leaves(interface.action_space, "action"):
                name = interface.actions[leaf.key].name
                wanted = (chosen[leaf.key][rows_played], executed[leaf.key][rows_played])
                if problem := _difference(leaf.space, outputs[name], *wanted):
                    raise _refused(f"{name!r} {problem}, in a batch of {count}")
            for name, remembered in after.items():
                if not np.allclose(outputs[name], remembered[rows_played], rtol=TOLERANCE, atol=TOLERANCE):
                    raise _refused(f"{name!r} differs, in a batch of {count}")


def _refused(problem: str) -> ConfigError:
    return ConfigError(
        f"the exported policy does not act as torch does, so it was not written: {problem}",
        "model",
        "An exporter of this torch or onnxscript may be wrong about a layer: try another one, or the other --format.",
    )


def _drawn(rng: np.random.Generator, draw: str, shape: tuple[int, ...]) -> np.ndarray:
    return np.asarray(getattr(rng, draw)(size=shape), np.float32)


def _chunks(tree: Tree, rows: int, size: int) -> Iterator[tuple[slice, Tree]]:
    for part in (slice(first, first + size) for first in range(0, rows, size)):
        yield part, take_rows(tree, part)


class _Given:
    """Noise that is given instead of drawn, leaves [R, …]."""

    def __init__(self, noise: TensorTree) -> None:
        self._noise = noise

    def draw(self, policy: Policy, steps: int) -> TensorTree:
        """Return the noise of one step."""
        return take_rows(self._noise, None)

    def state(self) -> dict[str, Any]:
        """Return nothing: nothing is drawn."""
        return {}

    def load_state(self, state: dict[str, Any]) -> None:
        """Do nothing."""


def _actions_of_torch(exported: ExportedPolicy, obs: Tree, state: Tree, noise: Tree) -> tuple[Tree, Tree, Tree]:
    """Return the actions by leaf key, as the agent of a run chooses them and as its environments execute them.

    Also what the agent remembers afterwards, by the names of outputs.
    """
    policy, space = exported.policy, exported.interface.action_space
    tensors = joined(to_tensors(noise), exported.noise)
    agent = NetworkAgent(policy, _Given(tensors) if tensors else None)
    if agent.memory is not None:
        agent.memory.load_state(to_tensors(state))
    chosen = agent.act(obs).actions
    after = {} if agent.memory is None else agent.memory.snapshot(len(next(iter(obs.values()))))
    executed = ActionCodec(space).batch(chosen)
    done = {leaf.key: np.asarray(_at(executed, leaf.path)) for leaf in leaves(space, "action")}
    return chosen, done, {f"next_state/{key}": leaf for key, leaf in after.items()}


def _at(value: Any, path: tuple[str | int, ...]) -> Any:
    for part in path:
        value = value[part]
    return value


def _difference(space: Space[Any], got: np.ndarray, chosen: np.ndarray, executed: np.ndarray) -> str | None:
    """Return how the actions of some rows differ from those of torch, as the end of a sentence; None if they agree."""
    if (got.shape, got.dtype) != (executed.shape, executed.dtype):
        return f"is {got.dtype} {got.shape} instead of {executed.dtype} {executed.shape}"
    same = got == executed
    if isinstance(space, spaces.Box):
        same |= _is_close(space, got, chosen)
    if same.all():
        return None
    place = tuple(np.argwhere(~same)[0])
    return f"is {got[place]} where torch chooses {executed[place]}"


def _is_close(space: spaces.Box, got: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """Return where actions are rounded from numbers close to those that torch chose."""
    low, high = float_bounds(space)
    half = np.where(np.isfinite(low) & np.isfinite(high), (high - low) / 2, 0.0)
    wanted = np.clip(chosen.astype(np.float64), space.low, space.high)
    scale = np.maximum(np.maximum(half, 1.0), np.abs(wanted))
    rounding = np.spacing(np.abs(got)) if got.dtype.kind == "f" else 0.5
    with np.errstate(invalid="ignore"):  # infinity minus infinity
        close: np.ndarray = np.abs(got.astype(np.float64) - wanted) <= TOLERANCE * scale + rounding
    return close
