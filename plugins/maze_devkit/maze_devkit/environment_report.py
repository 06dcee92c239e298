"""Examines one environment as a run would step it: what training would refuse, and advice."""

from __future__ import annotations

import re
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium import spaces
from gymnasium.utils.env_checker import check_env
from maze_environments.mask_spaces import mask_space
from maze_environments.parameters import Choice, Range, declared, tried

from maze_core import ConfigError, EnvBuilder, EpisodeSeeds, MazeError, PluginConfig, Purpose, flatten_space, vector_env
from maze_core.base.terminal_text import counted, plain
from maze_core.collect.policies.random import RandomPolicy
from maze_core.envs.actors import ACTOR, actors_of
from maze_core.envs.mask_forms import is_mask_like
from maze_core.envs.masks import MASK, mask_leaves, mask_size
from maze_core.envs.spaces import allocate, is_channels_first, is_image, looks_channels_first, space_specs
from maze_core.envs.time_limits import missing_time_limit
from maze_core.envs.vector import agents_of, can_replay
from maze_core.models.inputs import input_spaces
from maze_core.plugins.closing import releasing
from maze_core.plugins.discovery import describe
from maze_devkit.joint import JointEnv
from maze_devkit.soundness import WHY, Failed, Make, NotApplicable, Unusable, honest, other_seed, replays, same_seed

if TYPE_CHECKING:
    from maze_core import VectorEnv

_UNBOUNDED = re.compile(r"observation space m(ax|in)imum value is -?infinity")
# Gymnasium's checker finds that suspicious, in CartPole too; observations without bounds are common and train well.
_ENVS = 2
_STEPS = 100
_SEEDS = EpisodeSeeds(0, Purpose.TRAIN_EPISODES)


@dataclass
class EnvReport:
    """The result of an examination."""

    environment: str
    observation_space: str
    action_space: str
    actors: list[str] = field(default_factory=list)
    """Who takes turns, and how often with random actions; empty where a single actor acts."""
    stepped: str = ""
    """`single`, or `vectorised` where the natively vectorised form is stepped; empty where none could be."""
    parameters: list[str] = field(default_factory=list)
    """What curricula may change, with its range; empty where the environment declares nothing."""
    warnings: list[str] = field(default_factory=list)
    """What is suspicious: a run trains all the same."""
    problems: list[str] = field(default_factory=list)
    """What a run would refuse, and nothing else."""


def examine_environment(env: PluginConfig, wrappers: tuple[PluginConfig, ...] = ()) -> EnvReport:
    """Build an environment with its wrappers, and step it for a few seconds at most.

    Raises:
        ConfigError: it cannot be built.
    """
    builder = EnvBuilder(env, wrappers, seed=0, purpose="check")
    if builder.several_agents:
        return _examine_agents(builder)
    with releasing(builder(0)) as one:
        report = EnvReport(str(one), str(one.observation_space), str(one.action_space))
        notes: set[str] = set()
        with _collected(notes):
            acted: Counter[int] = Counter()
            lengths: list[int] = []
            steps = _steps_as_trained(report, builder, acted, lengths)
            _tell_of_actors(report, one, acted)
            # Gymnasium's checker takes any action, which an environment with masks may refuse.
            masked = steps and bool(mask_leaves(one.observation_space, one.action_space))
            if not masked:
                _ask(report.warnings if steps else report.problems, lambda: _check_interface(builder))
            if steps:
                notes |= _advice(one)
                if (endless := missing_time_limit(env, lambda: builder(0), max(lengths))) is not None:
                    notes.add(endless)
                _own_checks(report, builder)
    _try_parameters(report, builder)
    report.warnings = sorted({*report.warnings, *notes})
    return report


def _examine_agents(builder: EnvBuilder) -> EnvReport:
    """Examine an environment with several agents; the checks step all of them as one."""
    with releasing(vector_env(builder, 1)) as env:
        title = str(getattr(builder.env, "id", builder.env.name))
        report = EnvReport(title, str(env.observation_space), str(env.action_space))
        agents, notes = agents_of(env), _about_pictures(input_spaces(env.observation_space, env.action_space))
    with _collected(notes):
        if _steps_as_trained(report, builder, Counter(), []):
            report.stepped = f"a row for each of {counted(len(agents), 'agent')}: {', '.join(agents)}"
            # In a game in turns the moves of the others bring the variety, and no seed.
            left_out = ("chance",) if _in_turns(builder) else ()
            _own_checks(report, lambda index: JointEnv(builder.agents_env(index)), left_out)
    _try_parameters(report, builder)
    report.warnings = sorted({*report.warnings, *notes})
    return report


def _in_turns(builder: EnvBuilder) -> bool:
    """Return True where not all agents act at once."""
    with releasing(builder.agents_env(0)) as env:
        return len(env.reset(seed=0).acting) < len(env.agents)


def _check_interface(builder: EnvBuilder) -> None:
    with releasing(builder.single(0)) as env:  # below all wrappers, and in the form that gymnasium's checker knows
        try:
            check_env(env.unwrapped, skip_render_check=True)
        except AssertionError as error:
            if str(error):
                raise
            line = traceback.extract_tb(error.__traceback__)[-1].line
            raise AssertionError(f"gymnasium's checker reports a violated condition: {line}") from error


@contextmanager
def _collected(notes: set[str]) -> Iterator[None]:
    """Collect warnings as single lines."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    texts = (" ".join(plain(each.message).removeprefix("WARN:").split()) for each in caught)
    notes |= {text for text in texts if not _UNBOUNDED.search(text)}


def _ask(found: list[str], question: Callable[[], object]) -> bool:
    """Return True when `question` succeeds; else record what is wrong."""
    try:
        question()
    except MazeError as error:
        found.append(str(error))
    except (Exception, SystemExit) as error:  # noqa: BLE001 — whatever the environment raises is the finding
        found.append(describe(error))
    else:
        return True
    return False


def _tell_of_actors(report: EnvReport, env: Any, acted: Counter[int]) -> None:
    """Report each actor's kind and its share of the random steps; warn of those that never acted."""
    actors = actors_of(env.observation_space)
    if actors is None:
        return
    total = max(acted.total(), 1)
    for number, (name, kind) in enumerate(actors.actors.items()):
        spaces_of_kind = "" if name == kind else f", with the spaces of {kind}"
        report.actors.append(f"{name}: {acted[number] / total:.0%} of the turns{spaces_of_kind}")
        if acted and not acted[number]:
            report.warnings.append(
                f"the actor {name!r} did not act in {total} random turns. Its network learns only where it acts"
            )


def _steps_as_trained(report: EnvReport, builder: EnvBuilder, acted: Counter[int], lengths: list[int]) -> bool:
    def step() -> None:
        # Cut as by an evaluation, since flags are looked at where an episode ends.
        with releasing(vector_env(replace(builder, max_episode_steps=_STEPS - 1), _ENVS)) as env:
            lengths.extend(_step(env, acted))
            report.stepped = "single" if can_replay(env) else "vectorised"

    return _ask(report.problems, step)


def _step(env: VectorEnv, acted: Counter[int]) -> list[int]:
    """Take random actions that masks allow, as a run would; count the turns of each actor.

    Returns the lengths of the episodes, also of those that have not ended.
    """
    policy = RandomPolicy(PluginConfig(name="random"))
    policy.setup(env.observation_space, env.action_space)
    rngs = [np.random.default_rng(i) for i in range(env.num_envs)]
    out = allocate(space_specs(env.observation_space, "observation"), (env.num_envs,))
    env.reset(_SEEDS, out)
    lengths, running = list[int](), np.zeros(env.num_envs, np.int64)
    for _ in range(_STEPS):
        acted.update(out[ACTOR].tolist() if ACTOR in out else ())
        result = env.step(policy.act(out, rngs), out)
        running += 1
        over = result.terminated | result.truncated
        lengths += running[over].tolist()
        running[over] = 0
    return lengths + running.tolist()


def _own_checks(report: EnvReport, make: Make, left_out: tuple[str, ...] = ()) -> None:
    """Run the checks that the conformance kit makes too."""
    asked = {"seeds": same_seed, "chance": other_seed, "honesty": lambda make: honest(make, _STEPS), "replay": replays}
    for name, ask in asked.items():
        if name in left_out:
            continue
        try:
            ask(make)
        except NotApplicable:
            continue
        except Failed as failed:
            found = report.problems if isinstance(failed, Unusable) else report.warnings
            found.append(f"{failed}. {WHY[name]}")
        except (Exception, SystemExit) as error:  # noqa: BLE001 — as above
            report.problems.append(describe(error))


def _try_parameters(report: EnvReport, builder: EnvBuilder) -> None:
    """Report the parameters that an environment declares, and begin an episode at both ends of each range."""
    found: dict[str, Range] = {}
    if not _ask(report.problems, lambda: found.update(declared(builder))) or not found:
        return
    report.parameters = [f"{name}: {_range_of(each)}" for name, each in found.items()]
    first = {name: _values(each)[0] for name, each in found.items()}
    rows = [first, *({**first, name: value} for name, each in found.items() for value in _values(each)[1:])]
    for row in rows:
        if not _ask(report.problems, lambda row=row: tried(builder, row)):  # type: ignore[misc]
            return


def _values(each: Range) -> tuple[Any, ...]:
    return each.values if isinstance(each, Choice) else (each.low, each.high)


def _range_of(each: Range) -> str:
    return " or ".join(map(str, each.values)) if isinstance(each, Choice) else f"{each.low} to {each.high}"


def _advice(env: Any) -> set[str]:
    """Return advice for environments that cannot be trained on well with the defaults."""
    notes = _about_pictures(input_spaces(env.observation_space, env.action_space))
    if _reports_mask(env) and not mask_leaves(env.observation_space, env.action_space):
        notes.add("it reports an action mask outside of the observation; to use it: --wrappers mask_from_info")
    notes |= _about_masks(env)
    return notes


def _about_masks(env: Any) -> set[str]:
    """Return advice for leaves called `mask` that could mask an action."""
    sizes = set(map(mask_size, flatten_space(env.action_space, "action").values()))
    return {
        f"observation {key!r} goes to the network; if it says which actions are allowed, it must be called {MASK!r}"
        for key, space in input_spaces(env.observation_space, env.action_space).items()
        if key.rpartition("/")[2] in ("mask", "masks") and is_mask_like(space) and space.shape[0] in sizes  # type: ignore[index]
    }


def _about_pictures(leaves: Mapping[str, spaces.Space[Any]]) -> set[str]:
    pictures = [key for key, space in leaves.items() if is_image(space)]
    notes = {
        f"observation {key!r} of shape {leaves[key].shape} looks like an image with channels first, but models "
        "expect them last: --set model.layout=chw, or the wrapper transpose with axes [1, 2, 0]"
        for key in pictures
        if looks_channels_first(leaves[key].shape or ()) and not is_channels_first(leaves[key].shape or ())
    }
    if pictures:
        model = "cnn" if len(leaves) == 1 else "template"
        notes.add(f"observation {pictures[0]!r} is an image, which the model mlp does not support: --model {model}")
    return notes


def _reports_mask(env: Any) -> bool:
    """Return True when there is a mask that `mask_from_info` would find."""
    try:
        mask_space(env.action_space)
    except ConfigError:
        return False
    _, info = env.reset(seed=0)
    return (isinstance(info, Mapping) and MASK in info) or bool(env.has_wrapper_attr("action_masks"))
