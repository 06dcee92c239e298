"""Draw what guides speak of: memory, actors in turns, wrappers, and which algorithm to begin with.

    python docs/diagrams.py        write docs/pictures/memory.svg, turns.svg, wrappers.svg and which.svg

The turns are those of an episode of the environment that the page shows, the spaces those of an environment with
wrappers, the numbers the defaults of the code. An algorithm that is missing in the picture, or that does not take the
actions for which the picture names it, is an error here.
"""

from __future__ import annotations

import re
import types
from contextlib import closing
from html import escape
from pathlib import Path
from typing import Any

from structure import PICTURES, picture

GUIDE = Path(__file__).resolve().parent / "guide"
_WRAPPERS = ({"name": "hide", "elements": [1, 3]}, {"name": "stack", "size": 3}, {"name": "sticky_actions"})


def main() -> None:
    """Write all pictures."""
    for name, drawn in pictures().items():
        (PICTURES / name).write_text(drawn, encoding="utf-8")


def pictures() -> dict[str, str]:
    """Return the pictures by file name."""
    return {"memory.svg": memory(), "turns.svg": turns(), "wrappers.svg": wrappers(), "which.svg": which()}


# Memory


def memory() -> str:
    """Return what is carried from step to step, and how sequences of a replay buffer begin."""
    from maze_core.plugins import discovery

    parts = []
    episodes = ("t = 0", "1", "2", "t = 0", "1")
    for number, step in enumerate(episodes):
        x = 24 + 148 * number
        for row, name in enumerate(("heads", "memory", "encoder")):
            parts.append(_box(x, 34 + 62 * row, 96, 40, name, strong=name == "memory"))
        parts += [_arrow(f"M{x + 48},{y} V{y - 16}") for y in (34, 96, 158, 220)]
        parts += [_note(x + 48, 12, "action", "middle"), _note(x + 48, 236, f"observation, {step}", "middle")]
        if number + 1 < len(episodes) and episodes[number + 1] != "t = 0":
            parts.append(_arrow(f"M{x + 96},116 H{x + 142}"))
    cut = 24 + 148 * 3 - 26
    parts.append(f'<path d="M{cut},24 V246" stroke-dasharray="5 4"/>')
    parts.append(_note(cut, 262, "the episode ends: the next one begins with an empty memory", "middle"))
    config = discovery.load("algorithm", "sac").Config.model_fields
    burn, length = config["burn_in"].default, config["sequence_length"].default
    parts += [
        _note(24, 302, "Learning from replay: a sequence begins with the memory of when its steps were collected"),
        *(_box(24 + 20 * k, 314, 18, 30, "") for k in range(burn)),
        *(_box(24 + 20 * (burn + k), 314, 18, 30, "", strong=True) for k in range(length)),
        _note(24, 362, f"burn_in: {burn} steps are only read"),
        _note(24 + 20 * burn, 362, f"sequence_length: gradients flow through {length} steps"),
    ]
    return picture(772, 376, parts, "A memory between encoder and heads, and the sequences that it learns from.")


# Turns


def turns() -> str:
    """Return two decisions of the environment that the page on actors shows."""
    from maze_core.envs.actors import actors_of

    env = _of_page("actors", "greenhouse.py")["Greenhouse"]()
    turn = actors_of(env.observation_space)
    names = [] if turn is None else [*turn.actors]
    rows, reward = [], 0.0
    observation, _ = env.reset(seed=1)
    for number in range(5):
        actor = names[int(observation["turn"]["actor"])]
        elapsed = float(observation["turn"]["elapsed"].item())
        rows.append((actor, elapsed, reward))
        chosen = int(observation["walk"]["action_mask"].argmax()) if actor == "walk" else 0.25 + 0.1 * number
        action = env.action_space.sample()
        action[actor] = chosen if actor == "walk" else [chosen]
        observation, reward, *_ = env.step(action)
    parts = []
    lanes = {name: 66 + 76 * number for number, name in enumerate(dict.fromkeys(row[0] for row in rows))}
    for name, y in lanes.items():
        parts.append(_note(16, y + 25, name))
        parts.append(f'<path d="M60,{y + 20} H756" style="stroke:#d5dce8"/>')
    for number, (actor, elapsed, _) in enumerate(rows):
        x, y = 76 + 140 * number, lanes[actor]
        title = f"row {number}" if number < 4 else "end"
        parts.append(_box(x, y, 92, 40, title, strong=number < 4))
        if number:
            before = lanes[rows[number - 1][0]]
            parts.append(_arrow(f"M{x - 48},{before + 20} L{x - 6},{y + 20}"))
            parts.append(_note(x - 24, 40, "1" if elapsed == 0 else "gamma", "middle"))
    for number, (_, _, gained) in enumerate(rows[1:]):
        x = 122 + 140 * number
        parts.append(_note(x, 216, f"r{number} = {gained:.2f}".replace("-0.00", "0.00"), "middle"))
    for first in (0, 2):
        x = 76 + 140 * first
        parts.append(f'<path d="M{x},236 v8 H{x + 232} v-8"/>')
        parts.append(_note(x + 116, 262, "one decision", "middle"))
    parts.append(_note(16, 40, "discount"))
    parts.append(_note(16, 216, "reward"))
    parts.append(_note(76, 296, "return of row 0 = r0 + r1 + gamma · (r2 + r3) + gamma² · value of the end"))
    return picture(772, 312, parts, "Two decisions of two actors in turns, their rewards and discounts.")


def _of_page(page: str, file: str) -> dict[str, Any]:
    """Return the names of a program that a guide shows, run."""
    text = (GUIDE / f"{page}.md").read_text(encoding="utf-8")
    found = re.search(rf"```python\n(# {re.escape(file)}\n.*?)```", text, re.DOTALL)
    if found is None:
        raise ValueError(f"docs/guide/{page}.md shows no {file}")
    module = types.ModuleType(file.removesuffix(".py"))
    exec(compile(found[1], file, "exec"), module.__dict__)  # noqa: S102 — our own page
    return vars(module)


# Wrappers


def wrappers() -> str:
    """Return the wrappers of an environment from the innermost outwards, with the spaces on their way."""
    from maze_devkit.environment_list import brief

    from maze_core.envs.builder import EnvBuilder
    from maze_core.plugins.config.assembly import env_config

    spaces = []
    for count in range(len(_WRAPPERS) + 1):
        env, wrapped = env_config({"id": "CartPole-v1", "name": "gymnasium"}, [*_WRAPPERS[:count]], [])
        with closing(EnvBuilder(env, wrapped)(0)) as built:
            spaces.append((brief(built.observation_space), brief(built.action_space)))
    parts = []
    names = ["CartPole-v1", *(str(each["name"]) for each in _WRAPPERS), "agent"]
    for number, name in enumerate(names):
        x = 16 + 152 * number
        parts.append(_box(x, 60, 116, 72, name, strong=name in ("CartPole-v1", "agent")))
        if number < len(spaces):
            observed, acted = spaces[number]
            parts.append(_arrow(f"M{x + 116},78 h30"))
            parts.append(_arrow(f"M{x + 152},114 h-30"))
            parts.append(_note(x + 134, 44, observed.replace(", float32", "").replace(",)", ")"), "middle"))
            parts.append(_note(x + 134, 156, acted, "middle"))
    for number, each in enumerate(_WRAPPERS):
        settings = ", ".join(f"{key}: {value}" for key, value in each.items() if key != "name")
        parts.append(_note(16 + 152 * (number + 1) + 58, 112, settings, "middle"))
    parts += [_note(16, 20, "observations →"), _note(16, 182, "← actions, which pass the outermost wrapper first")]
    return picture(756, 200, parts, "An environment, three wrappers around it, and the agent.")


# Which algorithm

_CHOICES, _NUMBERS = "choices", "numbers"
_TREE: dict[str, dict[str, tuple[str, str]]] = {
    "An environment,\nand …": {
        "no idea yet, or steps cost little": ("ppo, then a2c, impala, appo, pg, trpo, pqn", ""),
        "steps are slow, actions are numbers": ("sac, its preset crossq; td3, ddpg", _NUMBERS),
        "many environments at once, numbers": ("fast_td3; flash_sac", _NUMBERS),
        "steps are slow, actions are choices": ("dqn, its preset rainbow; apex", _CHOICES),
        "many cores, short episodes, little reward": ("es; cma_es for small networks", ""),
    },
    "An environment,\nand something more": {
        "a team of agents, one reward": ("ppo; vdn, qmix", _CHOICES),
        "a game of two in turns": ("alphazero; ppo with self-play", _CHOICES),
        "a limit: contacts, energy, wear": ("ppo, a2c, trpo, sac, td3 with constraints", ""),
        "many tasks, few episodes of each": ("maml", ""),
        "good episodes beside it": ("sacfd; gail, airl without a reward", ""),
    },
    "Only recordings,\nof …": {
        "somebody good": ("bc", ""),
        "somebody mediocre": ("iql; td3_bc, cql for numbers", ""),
        "all kinds, and a return to ask for": ("dt", ""),
    },
}
"""What is asked, the answers, and the algorithms for each, with the actions that they must take."""


def which() -> str:
    """Return the questions that decide, with the algorithms to begin with."""
    _check_tree()
    y, parts = 16, []
    for question, answers in _TREE.items():
        height = 34 * len(answers)
        parts.append(_box(16, y + height / 2 - 26, 176, 52, "", strong=True))
        for place, text in enumerate(question.splitlines()):
            parts.append(_note(104, y + height / 2 - 5 + 19 * place, text, "middle", "name"))
        for number, (answer, (algorithms, _)) in enumerate(answers.items()):
            line = y + 17 + 34 * number
            middle = y + height / 2
            parts.append(_arrow(f"M192,{middle} C216,{middle} 208,{line} 232,{line}"))
            parts.append(_note(242, line + 4, answer))
            parts.append(_arrow(f"M500,{line} h20"))
            parts.append(_note(530, line + 4, algorithms, "start", "name"))
        y += height + 18
    return picture(900, y, parts, "Which algorithm: what there is, what it is like, and what to begin with.")


def _check_tree() -> None:
    """Raise ValueError for an algorithm that is missing, unknown, or does not take the actions of its place."""
    from gymnasium.spaces import Box, Discrete

    from maze_core.plugins import discovery

    installed = {name for name in discovery.names("algorithm") if not name.startswith("rllib-")}
    named = set()
    for text, actions in (pair for answers in _TREE.values() for pair in answers.values()):
        here = {word for word in re.findall(r"\w+", text) if word in installed}
        named |= here
        needed = {_NUMBERS: Box, _CHOICES: Discrete}.get(actions)
        wrong = [name for name in here if needed and needed not in discovery.load("algorithm", name).action_spaces]
        if wrong:
            raise ValueError(f"{', '.join(wrong)} does not take {actions}")
    if installed != named:
        raise ValueError(f"algorithms that the picture does not name: {', '.join(sorted(installed - named))}")


# Shapes


def _box(x: float, y: float, width: float, height: float, text: str, *, strong: bool = False) -> str:
    colour = ' style="fill:#dbe8fa;stroke:#5b7db1"' if strong else ""
    box = f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="6"{colour}/>'
    return box + (_note(x + width / 2, y + min(height / 2, 26) + 5, text, "middle", "name") if text else "")


def _note(x: float, y: float, text: str, anchor: str = "start", kind: str = "small") -> str:
    return f'<text class="{kind}" x="{x:g}" y="{y:g}" text-anchor="{anchor}">{escape(text)}</text>'


def _arrow(path: str) -> str:
    return f'<path d="{path}" marker-end="url(#tip)"/>'


if __name__ == "__main__":
    main()
