"""Environments of gymnasium with a space and a reward for each agent are told so, and played by their agents."""

import json

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from maze_pettingzoo.adapters import AgentsTogether
from maze_pettingzoo.joint import JointAgents
from typer.testing import CliRunner

from maze_core.base.errors import ConfigError
from maze_core.cli.main import app
from maze_core.envs.sources.imports import import_module
from maze_core.plugins.how_to_install import how_to_install


class Farm(gymnasium.Env):
    """Each agent is paid its number times what it does; `kind` says how spaces, rewards and flags are written."""

    def __init__(self, agents: int = 2, kind: str = "tuple", steps: int = 3):
        self.names = [f"worker {i}" for i in range(agents)] if kind == "dict" else [f"agent_{i}" for i in range(agents)]
        self.kind, self.steps = kind, steps
        self.observation_space = self.shaped([spaces.Box(0, 9, (1 + i,), np.float32) for i in range(agents)], True)
        self.action_space = self.shaped([spaces.Discrete(3 + i) for i in range(agents)], True)

    def shaped(self, values, space=False):
        if self.kind == "dict":
            found = dict(zip(self.names, values, strict=True))
            return spaces.Dict(found) if space else found
        return spaces.Tuple(values) if space else tuple(values)

    def seen(self):
        return self.shaped([np.full(1 + i, self.step_, np.float32) for i in range(len(self.names))])

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.step_, self.done = 0, []
        return self.seen(), {"weather": 1}

    def step(self, action):
        assert self.action_space.contains(action), action
        self.step_ += 1
        self.done.append(action)
        values = [action[key] for key in (self.names if self.kind == "dict" else range(len(self.names)))]
        paid = [float(i * value) for i, value in enumerate(values)]
        over = self.step_ >= self.steps
        if self.kind == "early":  # the first agent leaves one step before the others
            flags = [self.step_ >= self.steps - (i == 0) for i in range(len(self.names))]
            return self.seen(), np.array(paid), flags, [False] * len(flags), {}
        infos = {name: {"mine": i} for i, name in enumerate(self.names)} if self.kind == "dict" else {"weather": 2}
        return self.seen(), self.shaped(paid) if self.kind == "dict" else paid, over, False, infos


def farms() -> Farm:
    return Farm()


def team(env):
    """What a joint environment is for Maze."""
    return AgentsTogether(JointAgents(env))


@pytest.mark.parametrize("kind", ["tuple", "dict", "early"])
@pytest.mark.parametrize("agents", [2, 3])
def test_each_agent_sees_acts_and_is_paid_by_itself(kind, agents):
    env = team(Farm(agents, kind))
    names = list(env.agents)
    assert names == Farm(agents, kind).names
    assert [env.action_spaces[name].n for name in names] == [3 + i for i in range(agents)]
    acted = {name: 1 + i for i, name in enumerate(names)}
    result, paid = env.reset(seed=1), dict.fromkeys(names, 0.0)
    assert [len(result.acting[name]) for name in names] == [1 + i for i in range(agents)]
    ends = {}
    for step in (1, 2, 3):
        result = env.step({name: acted[name] for name in result.acting})
        for name, reward in result.rewards.items():
            paid[name] += reward
        ends |= dict.fromkeys(result.terminated, step)
    assert not result.acting
    lasted = {name: 2 if kind == "early" and i == 0 else 3 for i, name in enumerate(names)}
    assert ends == lasted
    assert paid == {name: lasted[name] * i * (1 + i) for i, name in enumerate(names)}
    inner = env.env.env
    assert len(inner.done) == 3  # for the one that has left, its last action is repeated
    assert set(result.infos[names[-1]]) == {"tuple": {"weather"}, "dict": {"mine"}, "early": set()}[kind]


def test_the_team_learns_from_the_command_line_and_the_message_says_how(tmp_path):
    name = "tests.maze_pettingzoo.test_joint:Farm"
    small = ["--epochs", "1", "--epoch-length", "1", "--n-rollout-steps", "8", "--num-envs", "1", "--preset", "none"]
    more = ["--set", "evaluation.n_episodes=1", "--seed", "1"]
    told = CliRunner().invoke(app, ["train", "ppo", "--env", name, *small, *more, "--run-dir", str(tmp_path / "a")])
    assert told.exit_code == 2
    assert "a reward of 2 numbers" in told.stderr
    assert "belong to 2 agents, as the parts of its action space do: --env-source pettingzoo\n" in told.stderr
    assert "--wrappers scalarize" in told.stderr
    here = ["--env-source", "pettingzoo", "--env", name, "--run-dir", str(tmp_path / "b")]
    done = CliRunner().invoke(app, ["train", "ppo", *here, *small, *more, "--set", "env.agent_id=true"])
    assert done.exit_code == 0, done.output
    shown = CliRunner().invoke(app, ["eval", str(tmp_path / "b"), "--episodes", "1", "--json"])
    assert all(f"eval/actor/agent_{i}/return_mean" in json.loads(shown.stdout) for i in (0, 1)), shown.stdout


@pytest.mark.parametrize("maker", [Farm, farms])
def test_without_the_plugin_the_message_says_what_to_install(quick, monkeypatch, maker):
    from maze_core.plugins import discovery

    others = tuple(each for each in discovery.declared() if each.distribution != "maze-pettingzoo")
    monkeypatch.setattr(discovery, "declared", lambda: others)
    with pytest.raises(ConfigError) as refusal:
        quick(maker, "ppo").train()
    advice = f"It comes with maze-pettingzoo, which is not installed. Next: {how_to_install('maze-pettingzoo')}"
    assert f'overrides={{"env.name": "pettingzoo"}}. {advice}' in str(refusal.value)


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("dict", r"""\{'worker 0'.*\n.*: overrides=\{"env\.name": "pettingzoo"\}\nNothing learnt had"""),
        ("early", r'array.*\n.*: overrides=\{"env\.name": "pettingzoo"\}\n'),
    ],
)
def test_a_dict_of_rewards_and_flags_for_each_agent_are_told_so_too(quick, kind, said):
    with pytest.raises(ConfigError, match=f"a reward of 2 numbers, not one: {said}"):
        quick(lambda: Farm(kind=kind), "ppo").train()


class Apart(Farm):
    """With one action space for two observations."""

    def __init__(self):
        super().__init__()
        self.action_space = spaces.Discrete(2)


@pytest.mark.parametrize("env", [Apart, lambda: gymnasium.make("CartPole-v1")])
def test_spaces_that_are_not_those_of_agents_are_refused(env):
    with pytest.raises(ConfigError, match=r"they do not hold one for each agent\nNext: --env-source gymnasium"):
        JointAgents(env())


def test_wrong_answers_are_refused():
    class Short(Farm):
        def step(self, action):
            observation, rewards, *rest = super().step(action)
            return observation, rewards[:1], *rest

    env = team(Short())
    env.reset(seed=0)
    with pytest.raises(
        ConfigError, match=r"step returned rewards that are not one for each of \['agent_0', 'agent_1'\]"
    ):
        env.step({"agent_0": 1, "agent_1": 1})


def test_the_source_claims_no_environment_of_gymnasium_by_itself():
    from maze_pettingzoo.source import PettingZooSource

    import_module("tests.maze_pettingzoo.test_joint", "env.id")
    for env_id in ("tests.maze_pettingzoo.test_joint:Farm", "CartPole-v1", "tests.maze_pettingzoo.test_joint:farms"):
        assert not PettingZooSource.knows(env_id)
