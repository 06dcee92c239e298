"""Names `rllib-…` that are no algorithm: RLlib's former algorithms, and what to use instead."""

from __future__ import annotations

from collections.abc import Mapping

from maze_rllib.parameters import named

_DQN = "It is DQN in its simplest form: maze train dqn"
_APEX = "Maze has its own: maze train apex --runner local"
_ALPHAZERO = "Maze has its own: maze train alphazero"
_OFFLINE = "Others learn from recordings as well: maze train iql, maze train cql, or rllib-marwil"
_BANDITS = "Maze has none either. Where an episode is one step, this learns: maze train ppo --gamma 0"
_MODELS = "A world model learns in rllib-dreamerv3; Maze's own for many tasks is: maze train maml"

REMOVED: Mapping[str, tuple[str, str]] = {
    "a2c": ("A2C", "Maze has its own: maze train a2c"),
    "a3c": (
        "A3C",
        "Maze has A2C, which waits for all environments: maze train a2c; one that does not: maze train impala",
    ),
    "alphastar": (
        "AlphaStar",
        "Policies play against former ones of theirs with the callback self_play: maze train ppo",
    ),
    "alphazero": ("AlphaZero", _ALPHAZERO),
    "apex": ("Ape-X", _APEX),
    "apexddpg": ("Ape-X DDPG", "Ape-X is for DQN here: maze train apex. DDPG is: maze train ddpg"),
    "apexdqn": ("Ape-X DQN", _APEX),
    "ars": ("ARS", "Maze's own of this kind is: maze train es"),
    "bandit": ("its bandits", _BANDITS),
    "banditlints": ("BanditLinTS", _BANDITS),
    "banditlinucb": ("BanditLinUCB", _BANDITS),
    "crr": ("CRR", _OFFLINE),
    "ddpg": ("DDPG", "Maze has its own: maze train ddpg"),
    "ddppo": (
        "DD-PPO",
        "PPO with several learners is: maze train ppo --learners 2, or maze train rllib-ppo --num-learners 2",
    ),
    "dreamer": ("Dreamer", "Its successor is: maze train rllib-dreamerv3"),
    "dt": ("DT, the decision transformer", "Maze has its own: maze train dt"),
    "es": ("ES", "Maze has its own: maze train es"),
    "leelachesszero": ("LeelaChessZero", _ALPHAZERO),
    "maddpg": (
        "MADDPG",
        "Agents that share a policy learn with: maze train ppo; teams with discrete actions: maze train qmix",
    ),
    "maml": ("MAML", "Maze has its own: maze train maml"),
    "mbmpo": ("MBMPO", _MODELS),
    "pg": ("PG", "Maze has its own: maze train pg"),
    "qmix": ("QMIX", "Maze has its own: maze train qmix"),
    "r2d2": ("R2D2", "It is DQN with memory: maze train dqn --set model.memory=gru"),
    "randomagent": ("RandomAgent", "A random policy plays with: maze rollout --policy random"),
    "simpleq": ("SimpleQ", _DQN),
    "slateq": ("SlateQ", "Maze has none either. Several choices at once are a MultiDiscrete action: maze train ppo"),
    "td3": ("TD3", "Maze has its own: maze train td3"),
}
"""The former algorithms by their names without `-` and `_`, each with its title and with what there is."""
_ALSO = {"decisiontransformer": "dt", "evolutionstrategies": "es", "policygradient": "pg", "random": "randomagent"}
"""Their other names."""


def hint(name: str) -> str:
    """Return what to type instead of a name that begins with `rllib`."""
    plain = "".join(letter for letter in name.lower().removeprefix("rllib") if letter.isalnum())
    there = named()
    if plain in there:
        return f"Did you mean rllib-{plain}?"
    known = _ALSO.get(plain, plain)
    found = REMOVED.get(known) or (REMOVED["bandit"] if known.startswith("bandit") else None)
    if found is not None:
        return f"RLlib removed {found[0]}. {found[1]}"
    return f"RLlib's algorithms are rllib-{', rllib-'.join(sorted(there))}"
