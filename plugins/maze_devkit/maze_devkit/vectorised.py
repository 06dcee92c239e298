"""The check of env sources with natively vectorised environments."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv

from maze_core import EpisodeSeeds, Purpose, map_tree
from maze_core.envs.codecs import ActionCodec
from maze_core.envs.interfaces import native as adapted
from maze_core.envs.serial import SerialVectorEnv
from maze_core.envs.spaces import allocate, space_specs
from maze_devkit.findings import Failed, NotApplicable
from maze_devkit.soundness import STEPS
from maze_devkit.stepping import not_built

if TYPE_CHECKING:
    import gymnasium

    from maze_core import EnvBuilder, Tree, VectorEnv

_ENVS = 3
_SEEDS = (3, 4)
_AS_THE_SINGLE_ONE = "differs from that of `make_env` with the same seed and actions"


@dataclass
class _Episode:
    """The first episode of one environment with all its outputs."""

    rows: list[list[np.ndarray]] = field(default_factory=list)
    """First the observation of the reset, then for each step reward, flags and observation, at the end the last one."""
    ended: tuple[bool, bool] | None = None
    """Terminated and truncated; None if it has not ended."""
    begun_again: bool = False
    """True if its last observation is that of the reset in the same step."""


def conforms(builder: EnvBuilder) -> None:
    """Run the check.

    Raises:
        Failed: the vectorised environments are not those of `make_env`.
        NotApplicable: there are none.
    """
    native = builder.vector_env(_ENVS)
    if native is None:
        raise NotApplicable("`make_vector_env` returns nothing")
    with closing(native):
        adapted(native)  # refuses one that does not declare its autoreset mode
        _check_spaces(builder, native)
        _check_honesty(native)
        one_by_one = isinstance(native.unwrapped, SyncVectorEnv | AsyncVectorEnv)
        same_step = native.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP
    for seed in _SEEDS:
        mine, single = _played(_native(builder), seed), _played(SerialVectorEnv(builder.single, _ENVS), seed)
        if one_by_one:
            _compare(mine, single)
        else:
            _check_repeats(mine, _played(_native(builder), seed))
            _check_apart(mine, single)
            _check_ends(mine, single)
        ends = [episode.begun_again for episode in mine if episode.ended]
        if same_step and ends and all(ends) and _has_chance(single):
            raise Failed("`info['final_obs']` is the first observation of the next episode")


def _native(builder: EnvBuilder) -> VectorEnv:
    env = builder.vector_env(_ENVS)
    if env is None:
        raise Failed("`make_vector_env` returns an environment at one call and none at another")
    return adapted(env)


def _check_spaces(builder: EnvBuilder, native: gymnasium.vector.VectorEnv[Any, Any, Any]) -> None:
    if native.num_envs != _ENVS:
        raise Failed(f"asked for {_ENVS} environments, it makes {native.num_envs}")
    try:
        single = builder.single(0)
    except Exception as error:
        raise not_built(error) from error
    with closing(single):
        for name in ("observation_space", "action_space"):
            own, wanted = getattr(native, f"single_{name}"), getattr(single, name)
            if own != wanted:
                raise Failed(f"single_{name} is {own}, that of `make_env` is {wanted}")


def _check_honesty(native: gymnasium.vector.VectorEnv[Any, Any, Any]) -> None:
    observation, _ = native.reset(seed=1)
    native.action_space.seed(1)
    for number in range(60):
        if not native.observation_space.contains(observation):
            raise Failed(f"step {number}: the observation {observation!r:.80} is not in {native.observation_space}")
        observation, _, terminated, truncated, _ = native.step(native.action_space.sample())
        if np.any(terminated | truncated) and native.metadata["autoreset_mode"] is AutoresetMode.DISABLED:
            return


def _actions(env: VectorEnv, seed: int) -> Iterator[Tree]:
    """Yield random actions, the same for all environments at each step."""
    codec, space = ActionCodec(env.action_space), env.action_space
    space.seed(seed)
    while True:
        tree = codec.tree(space.sample())
        yield map_tree(lambda leaf: np.repeat(leaf, _ENVS, 0), tree)


def _played(env: VectorEnv, seed: int) -> list[_Episode]:
    """Return the first episode of each environment."""
    with closing(env):
        out = allocate(space_specs(env.observation_space, "observation"), (_ENVS,))
        env.reset(EpisodeSeeds(seed, Purpose.TRAIN_EPISODES), out)
        episodes = [_Episode([_row(out, i)]) for i in range(_ENVS)]
        actions = _actions(env, seed)
        for _ in range(STEPS):
            result = env.step(next(actions), out)
            for i, episode in enumerate(episodes):
                if episode.ended:
                    continue
                seen, flags = _row(out, i), (bool(result.terminated[i]), bool(result.truncated[i]))
                if any(flags):
                    last = _row(result.final_obs or out, list(result.final_indices).index(i))
                    episode.begun_again = all(map(np.array_equal, last, seen))
                    episode.ended, seen = flags, last
                episode.rows.append([result.reward[i].copy(), np.array(flags), *seen])
            if all(episode.ended for episode in episodes):
                break
    return episodes


def _row(tree: Tree, i: int) -> list[np.ndarray]:
    return [leaf[i].copy() for leaf in tree.values()]


def _differing(first: _Episode, second: _Episode) -> int | None:
    """Return the first step at which two episodes differ; None if they are equal."""
    for step, (one, two) in enumerate(zip(first.rows, second.rows, strict=False)):
        if not all(np.allclose(a, b, rtol=1e-5, atol=1e-6) for a, b in zip(one, two, strict=True)):
            return step
    return None if len(first.rows) == len(second.rows) else min(len(first.rows), len(second.rows))


def _compare(mine: list[_Episode], single: list[_Episode]) -> None:
    for number, (one, two) in enumerate(zip(mine, single, strict=True)):
        step = _differing(one, two)
        if step is None:
            continue
        if one.ended and two.ended and len(one.rows) == len(two.rows) == step + 1:
            if one.ended != two.ended:
                raise Failed(f"an episode that {_how(two)} with `make_env` {_how(one)} here")
            raise Failed(f"the last observation of environment {number} {_AS_THE_SINGLE_ONE}")
        raise Failed(f"step {step} of environment {number} {_AS_THE_SINGLE_ONE}")


def _how(episode: _Episode) -> str:
    return "is terminated" if episode.ended == (True, False) else "is truncated"


def _check_repeats(first: list[_Episode], second: list[_Episode]) -> None:
    for number, (one, two) in enumerate(zip(first, second, strict=True)):
        if (step := _differing(one, two)) is not None:
            raise Failed(f"with the same seed and actions, step {step} of environment {number} differs")


def _has_chance(single: list[_Episode]) -> bool:
    return any(_differing(single[0], other) is not None for other in single[1:])


def _check_apart(mine: list[_Episode], single: list[_Episode]) -> None:
    if _has_chance(single) and not _has_chance(mine):
        raise Failed("given the same actions, all environments play the same episode: they share a seed")


def _check_ends(mine: list[_Episode], single: list[_Episode]) -> None:
    """Compare only time limits: one seed for all environments gives other episodes than one for each."""
    for ours, theirs in (((True, False), (False, True)), ((False, True), (True, False))):
        lengths = {len(episode.rows) for episode in (*mine, *single)}
        if len(lengths) == 1 and {e.ended for e in mine} == {ours} and {e.ended for e in single} == {theirs}:
            raise Failed(f"an episode that {_how(single[0])} with `make_env` {_how(mine[0])} here")
