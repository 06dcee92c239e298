"""The checks that env sources and wrappers share: stepping an environment under test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

from gymnasium.utils.env_checker import check_env

from maze_core.envs.wrappers import lasting_layers
from maze_devkit.findings import Check, Failed, NotApplicable
from maze_devkit.process import left_alone
from maze_devkit.soundness import STEPS, WHY, Env, Make, honest, other_seed, random_steps, replays, same_seed
from maze_devkit.subject import Subject

Build = Callable[[Subject, int], Env]
"""Builds an environment of the plugin under test, by number.

Raises:
    NotApplicable: it cannot be built, which another check reports.
"""


def checks(build: Build, steps: int = STEPS) -> tuple[Check, ...]:
    """Return the checks of environments that `build` builds; `steps`: steps for which outputs are verified."""

    @contextmanager
    def built(subject: Subject, index: int = 0) -> Iterator[Env]:
        with closing(build(subject, index)) as env:
            yield env

    def interface(subject: Subject) -> None:
        with built(subject) as env:
            env.unwrapped.spec = None  # with a spec, the checker would make the environment again by its id
            try:
                check_env(env, skip_render_check=True)
            except Exception as error:
                if "step rewards" in str(error) and lasting_layers(env):
                    raise NotApplicable("its state from earlier episodes may change its rewards") from error
                raise Failed(f"gymnasium's checker: {type(error).__name__}: {error}") from error

    def copies(subject: Subject) -> Make:
        return lambda index: build(subject, index)

    def state(subject: Subject) -> None:
        with left_alone("building and stepping it"), built(subject) as env:
            for _ in random_steps(env, 3):
                pass

    return (
        Check(
            "gymnasium",
            "gymnasium's own `check_env` finds nothing.",
            "Everything written for gymnasium relies on its interface.",
            "Read the message; https://gymnasium.farama.org/api/env describes the interface.",
            interface,
        ),
        Check(
            "seeds",
            "The same seed and actions give the same episodes in every copy.",
            WHY["seeds"],
            "Draw all random numbers from `self.np_random`, which `super().reset(seed=seed)` seeds; copies must "
            "share nothing.",
            lambda subject: same_seed(copies(subject)),
        ),
        Check(
            "chance",
            "Another seed gives different episodes.",
            WHY["chance"],
            "Draw all random numbers from `self.np_random`. If the environment is meant to be deterministic, "
            "waive this check in `conformance`.",
            lambda subject: other_seed(copies(subject)),
        ),
        Check(
            "honesty",
            f"In {steps} random steps every observation is in the declared space, with its dtype; rewards are finite "
            "numbers, flags are booleans.",
            WHY["honesty"],
            "Correct the bounds, the shape or the dtype of the space, or clip and convert observations.",
            lambda subject: honest(copies(subject), steps),
        ),
        Check(
            "replay",
            "A new copy repeats an episode from its seed, its actions and the `state` before it, rewards included.",
            WHY["replay"],
            "Make everything depend on `reset(seed=…)`. Numbers and arrays that a wrapper keeps are saved; one with "
            "other state has `state` and `load_state`; an environment with further state waives the check, and its "
            "runs are not resumed exactly.",
            lambda subject: replays(copies(subject)),
        ),
        Check(
            "global_state",
            "Building and stepping it leaves random states, threads, signal handlers, environment variables and the "
            "working directory alone.",
            "Environments share a process with each other and with the learner.",
            "Use `self.np_random`; restore what you must change.",
            state,
            alone=True,
        ),
    )


def not_built(error: Exception) -> NotApplicable:
    """Return the finding for an environment that cannot be built."""
    return NotApplicable(f"no environment can be built, see the check `makes` ({type(error).__name__}: {error})")
