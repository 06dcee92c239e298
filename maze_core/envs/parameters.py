"""Parameters of environments that change from episode to episode, such as the size of a maze or the wind."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from maze_core.base.saved_state import Each, Entries, OrNone, refused
from maze_core.base.seeding import EpisodePlan
from maze_core.base.terminal_text import shown
from maze_core.plugins.extensions import extension

if TYPE_CHECKING:
    from maze_core.base.seeding import EpisodeSeeds, Values

PARAMETER_SETTERS = "maze.parameters"
"""The entry-point group of `setter`, which sets the parameters of an environment, and `rebuilt`, which builds it anew.
They are of_parameters where episodes have parameters only."""

SEED = "seed"
"""The parameter that takes the place of an episode's seed: the level, where levels are generated from seeds."""


def of_parameters(name: str) -> Any:
    """Return an object of the group. Raises ConfigError where no installed distribution has it."""
    return extension(PARAMETER_SETTERS, name, "an environment whose parameters change", "maze-environments", "env")


class EpisodeParameters:
    """The parameters of the episodes of some environments: those of now, and what they are for the next ones."""

    def __init__(self, count: int, builder: Any = None) -> None:
        self._rows: tuple[Values, ...] = getattr(builder, "parameters", ())
        """Those of every evaluation or rollout, whose seeds number the episodes of all environments."""
        self._first = 0
        self.used = False
        """False: no episode of these environments has parameters, or had some."""
        self.plan: EpisodePlan | None = None
        """For the episodes that begin from now on; None: they have none."""
        self.now: list[Values | None] = [None] * count
        """Of the unfinished episodes."""
        self._recorded: dict[int, Values | None] = {}
        self._setters: dict[int, Any] = {}
        self._arguments: dict[int, dict[str, Any]] = {}
        """Those of the constructor of each environment that was built anew."""
        self._names: dict[int, set[str]] = {}
        """Of the parameters that were set in each environment since it was built."""

    def planned(self, seeds: EpisodeSeeds) -> EpisodeSeeds:
        """Return the seeds with the plan. One that they have counts from now on."""
        if self._rows:
            self._first = seeds.first
            self.instruct(EpisodePlan(self._rows, seeds.stride or len(self.now)))
            return seeds
        if seeds.plan is not None:
            self.instruct(seeds.plan)
        return seeds if self.plan is None else replace(seeds, plan=self.plan)

    def instruct(self, plan: EpisodePlan) -> None:
        """Let the episodes that begin from now on have the parameters of a plan."""
        self.used, self.plan = True, plan

    def begin(self, i: int, env_index: int, episode_number: int) -> Values | None:
        """Return the parameters of the episode that begins in environment i, or is replayed; None: it has none."""
        if i in self._recorded:
            self.now[i] = self._recorded.pop(i)
        else:
            self.now[i] = None if self.plan is None else self.plan.of(self._first + env_index, episode_number)
        return self.now[i]

    def give(self, i: int, envs: Sequence[Any], rebuild: Callable[[int, dict[str, Any]], None], seed: int) -> Any:
        """Let environment i of `envs` have its parameters, and return its seed; `rebuild` builds it with arguments.

        What the episode before had and this one has not is again as the environment was built.
        """
        values = self.now[i] or {}
        if self._names.get(i, set()) - values.keys():
            self._arguments[i], self._names[i] = {}, set()
            rebuild(i, {})
        if not values:
            return seed
        arguments = self._set(i, envs[i], values)
        if arguments != self._arguments.get(i, {}):
            self._arguments[i] = arguments
            rebuild(i, arguments)
            self._set(i, envs[i], values)
        self._names[i] = values.keys() - {SEED}
        return values.get(SEED, seed)

    def _set(self, i: int, env: Any, values: Values) -> dict[str, Any]:
        setter = self._setters.get(i)
        if setter is None or setter.env is not env:
            setter = self._setters[i] = of_parameters("setter")(env)
        left: dict[str, Any] = setter.set(values)
        return left

    def state(self) -> dict[str, Any]:
        """Return the parameters of the unfinished episodes, as a part of the state of the environments."""
        has = self.plan is not None or any(self.now)
        return {"parameters": [each and dict(each) for each in self.now]} if has else {}

    def load(self, state: Mapping[str, Any]) -> None:
        """Restore the result of `state()`: each environment begins with the recorded parameters once."""
        self._recorded = dict(enumerate(state.get("parameters", ())))
        self.used = self.used or bool(self._recorded)


class Plain:
    """The form of a parameter's value in a saved state."""

    def check(self, saved: Any, place: str) -> None:
        """Raise StateError if it is something else."""
        if not isinstance(saved, bool | int | float | str):
            raise refused(place, "a number or a text", f"is {shown(saved)}")


PARAMETERS = Each(OrNone(Entries(Plain())))
"""The form of the parameters of some episodes in a saved state."""
