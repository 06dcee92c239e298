"""What environments of PettingZoo return, checked: each fault is an error that names the method and the agent."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from gymnasium import Space

from maze_core import ConfigError
from maze_core.base.terminal_text import shown
from maze_core.envs.spaces import ROLES

_KINDS = {
    "reset": ("observations", "infos"),
    "step": ("observations", "rewards", "terminations", "truncations", "infos"),
    "last": ("observation", "reward", "termination", "truncation", "info"),
}


def agents_by_name(env: Any) -> dict[str, Any]:
    """Return the agents of an environment by name. They need not be texts.

    Raises:
        ConfigError: it names none, or two with the same name.
    """
    agents = getattr(env, "possible_agents", None)
    if agents is None or not isinstance(agents, Iterable) or isinstance(agents, str | bytes):
        raise _wrong(
            f"does not list its agents: possible_agents is {shown(agents)}, so there is no row for each of them"
        )
    found = list(agents)
    named = {str(agent): agent for agent in found}
    if not found or len(named) != len(found):
        raise _wrong(f"lists {'no agents' if not found else 'two agents of one name'}: {shown(found)}")
    if odd := [agent for agent in found if not _is_hashable(agent)]:
        raise _wrong(f"has an agent that cannot be the key of a dict: {shown(odd[0])}")
    return named


def spaces_of(env: Any, agents: Mapping[str, Any]) -> tuple[dict[str, Space[Any]], dict[str, Space[Any]]]:
    """Return the observation spaces and the action spaces of agents by name.

    Raises:
        ConfigError: they are not the results of PettingZoo's methods, or no spaces.
    """
    found: list[dict[str, Space[Any]]] = []
    for role in ROLES:
        method = getattr(env, f"{role}_space", None)
        if not callable(method):
            raise _wrong(f"has no method {role}_space(agent), but {shown(method)}")
        found.append({name: method(agent) for name, agent in agents.items()})
        for name, space in found[-1].items():
            if not isinstance(space, Space):
                raise _wrong(f"declares {shown(space)} as {role}_space({name!r}), which is not a gymnasium.Space")
    return found[0], found[1]


def answer(method: str, result: Any) -> tuple[Any, ...]:
    """Return the values that a parallel `reset` or `step`, or `last`, returned. Raises ConfigError for others."""
    kinds = _KINDS[method]
    if not isinstance(result, tuple | list) or len(result) != len(kinds):
        alone = method == "reset" and isinstance(result, Mapping)
        several = isinstance(result, tuple | list)
        got = "observations only" if alone else f"{len(result)} values" if several else shown(result)
        raise _wrong(f"returns {got} from {method}, not ({', '.join(kinds)})")
    return tuple(result)


def by_name(method: str, kind: str, values: Any, names: Mapping[Any, str]) -> dict[str, Any]:
    """Return the values of a dict by the names of its agents.

    Args:
        method: what returned it.
        kind: what it holds, such as `rewards`.
        values: the dict; in `infos`, keys that are no agents are left out.
        names: the names of all possible agents.

    Raises:
        ConfigError: it is not a dict, or names somebody who is not a possible agent.
    """
    if not isinstance(values, Mapping):
        raise _wrong(f"returns {kind} from {method} that are no dict by agent: {shown(values)}")
    strangers = [key for key in values if key not in names]
    if strangers and kind != "infos":
        hint = (
            "__all__ belongs to RLlib's interface. PettingZoo's dicts name agents only; the episode is over when "
            "env.agents is empty."
        )
        raise _wrong(
            f"names {shown(strangers[0])} in the {kind} of {method}, but its possible_agents are {shown(list(names))}",
            hint if "__all__" in strangers else None,
        )
    return {names[key]: value for key, value in values.items() if key in names}


def numbers(method: str, rewards: Mapping[str, Any]) -> dict[str, float]:
    """Return rewards as numbers. Raises ConfigError for one that is none."""
    found = {}
    for name, reward in rewards.items():
        try:
            found[name] = reward if type(reward) is float else _number(reward)
        except Exception as exc:
            raise _wrong(f"returns a reward of {name!r} from {method} that is not a number: {shown(reward)}") from exc
    return found


def those_set(method: str, kind: str, flags: Mapping[str, Any]) -> set[str]:
    """Return the names whose flag is set. Raises ConfigError for a flag that is neither true nor false."""
    found = set()
    for name, flag in flags.items():
        try:
            if flag:
                found.add(name)
        except Exception as exc:
            raise _wrong(f"returns {kind} of {name!r} from {method} that are not a boolean: {shown(flag)}") from exc
    return found


def check_gone(agent: Any, agents: Iterable[Any]) -> None:
    """Raise ConfigError where an agent that took its last step, `step(None)`, is still there: it would have no end."""
    if agent in agents:
        raise _wrong(
            f"keeps {shown(agent)} among its agents after step(None), with which an agent that has ended leaves"
        )


def info_of(infos: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return the info of an agent; an empty one where there is none. Raises ConfigError for one that is no dict."""
    info = infos.get(name, {})
    if not isinstance(info, Mapping):
        raise _wrong(f"returns an info of {name!r} that is no dict: {shown(info)}", "Next: return {} there.")
    return info


def _number(value: Any) -> float:
    if isinstance(value, str | bytes):
        raise TypeError
    return float(value)


def _is_hashable(value: Any) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


def _wrong(problem: str, hint: str | None = None) -> ConfigError:
    return ConfigError(f"the environment of PettingZoo {problem}", "env", hint)
