"""Learning of MAPPO in BenchMARL on simple spread: `python benchmarl_mappo.py SETTINGS_AS_JSON`.

Prints the mean return of an agent under the final policy as JSON: of its most likely actions, and of sampled ones.
Needs an environment of its own: `pip install -c constraints.txt torch benchmarl==1.5.2 mpe2 pettingzoo`. The published
figures have the settings

    {"seed": 1, "steps": 332800, "episodes": 100, "evaluation_seed": 100000, "model": {"num_cells": [128, 128]},
     "experiment": {"lr": 0.001, "clip_grad_val": 0.5, "on_policy_collected_frames_per_batch": 1600,
     "on_policy_n_envs_per_worker": 16, "on_policy_n_minibatch_iters": 10, "on_policy_minibatch_size": 320},
     "algorithm": {"lmbda": 0.95, "entropy_coef": 0.01}}
"""

from __future__ import annotations

import json
import logging
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from benchmarl.algorithms import MappoConfig
from benchmarl.environments import TaskClass
from benchmarl.experiment import Experiment, ExperimentConfig
from benchmarl.models.mlp import MlpConfig
from mpe2 import simple_spread_v3
from tensordict import TensorDict, TensorDictBase
from torchrl.data import Categorical, Composite, Unbounded
from torchrl.envs import EnvBase
from torchrl.envs.utils import ExplorationType, set_exploration_type

AGENTS, FEATURES, ACTIONS = 3, 18, 5


class SpreadEnvs(EnvBase):
    """Environments of mpe2 side by side. TorchRL's wrapper, which holds one each, takes several times as long."""

    def __init__(self, num_envs: int, seed: int) -> None:
        super().__init__(batch_size=[num_envs])
        self.envs = [simple_spread_v3.raw_env() for _ in range(num_envs)]
        for index, env in enumerate(self.envs):
            env.reset(seed=1000 * seed + index)
        shape = (num_envs, AGENTS)
        self.observation_spec = Composite(
            agent=Composite(observation=Unbounded((*shape, FEATURES)), shape=shape),
            state=Unbounded((num_envs, AGENTS * FEATURES)),
            shape=[num_envs],
        )
        self.action_spec = Composite(agent=Composite(action=Categorical(ACTIONS, shape), shape=shape), shape=[num_envs])
        self.reward_spec = Composite(agent=Composite(reward=Unbounded((*shape, 1)), shape=shape), shape=[num_envs])
        ends = {name: Categorical(2, (num_envs, 1), dtype=torch.bool) for name in ("done", "terminated", "truncated")}
        self.done_spec = Composite(ends, shape=[num_envs])

    def _reset(self, tensordict: TensorDictBase | None = None, **_: Any) -> TensorDictBase:
        chosen = None if tensordict is None else tensordict.get("_reset", None)
        for index, env in enumerate(self.envs):
            if chosen is None or chosen[index].any():
                env.reset()
        return self._seen()

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        for env, actions in zip(self.envs, tensordict["agent", "action"].tolist(), strict=True):
            for action in actions:  # one agent after the other; the world moves with the last
                env.step(action)
        result = self._seen()
        rewards = [[env.rewards[agent] for agent in env.possible_agents] for env in self.envs]
        result["agent", "reward"] = torch.tensor(rewards, dtype=torch.float32).unsqueeze(-1)
        truncated = torch.tensor([[env.steps >= env.max_cycles] for env in self.envs])
        ends = {"done": truncated, "truncated": truncated.clone(), "terminated": torch.zeros_like(truncated)}
        return result.update(ends)

    def _seen(self) -> TensorDict:
        rows = np.stack([[env.observe(agent) for agent in env.possible_agents] for env in self.envs])
        observation = torch.from_numpy(rows)
        agent = TensorDict({"observation": observation}, observation.shape[:2])
        return TensorDict({"agent": agent, "state": observation.flatten(1)}, self.batch_size)

    def _set_seed(self, seed: int | None) -> None:
        """Each environment got its seed when it was made."""


class Spread(TaskClass):
    """Simple spread of mpe2, in which an episode has 25 steps."""

    def get_env_fun(
        self, num_envs: int, continuous_actions: bool, seed: int | None, device: Any
    ) -> Callable[[], EnvBase]:
        return lambda: SpreadEnvs(num_envs, seed or 0)

    def supports_continuous_actions(self) -> bool:
        return False

    def supports_discrete_actions(self) -> bool:
        return True

    def has_render(self, env: EnvBase) -> bool:
        return False

    def max_steps(self, env: EnvBase) -> int:
        return 25

    def group_map(self, env: EnvBase) -> dict[str, list[str]]:
        return {"agent": [f"agent_{index}" for index in range(AGENTS)]}

    def observation_spec(self, env: EnvBase) -> Composite:
        return Composite(agent=env.full_observation_spec_unbatched["agent"].clone())

    def state_spec(self, env: EnvBase) -> Composite:
        return Composite(state=env.full_observation_spec_unbatched["state"].clone())

    def action_spec(self, env: EnvBase) -> Composite:
        return env.full_action_spec_unbatched

    def info_spec(self, env: EnvBase) -> None:
        return None

    def action_mask_spec(self, env: EnvBase) -> None:
        return None

    @staticmethod
    def env_name() -> str:
        return "mpe2"


def main() -> None:
    settings = json.loads(sys.argv[1])
    torch.set_num_threads(1)
    started = time.perf_counter()
    # Only the result is to stand on stdout, where TorchRL has its log.
    logging.getLogger("torchrl").setLevel(logging.WARNING)
    with tempfile.TemporaryDirectory() as folder:
        experiment = build(settings, folder)
        experiment.run()
    seconds = time.perf_counter() - started
    result = {
        "score": score(experiment, settings, ExplorationType.DETERMINISTIC),
        "score_sampled": score(experiment, settings, ExplorationType.RANDOM),
        "env_steps": experiment.total_frames,
        "seconds": seconds,
        "cpu_seconds": time.process_time(),
    }
    print(json.dumps(result))


def build(settings: dict[str, Any], folder: str) -> Experiment:
    """The experiment, with BenchMARL's defaults where the settings name nothing else."""
    config, algorithm, model = ExperimentConfig.get_from_yaml(), MappoConfig.get_from_yaml(), MlpConfig.get_from_yaml()
    config.max_n_frames, config.save_folder = settings["steps"], folder
    config.evaluation, config.create_json, config.loggers = False, False, []
    for part, name in ((config, "experiment"), (algorithm, "algorithm"), (model, "model")):
        for key, value in settings.get(name, {}).items():
            if not hasattr(part, key):
                raise KeyError(f"{name} has no {key}")
            setattr(part, key, value)
    return Experiment(Spread("SIMPLE_SPREAD", {}), algorithm, model, settings["seed"], config)


@torch.no_grad()
def score(experiment: Experiment, settings: dict[str, Any], exploration: ExplorationType) -> float:
    """The mean return of an agent, not discounted."""
    env = simple_spread_v3.parallel_env()
    torch.manual_seed(settings["evaluation_seed"])
    total = 0.0
    for episode in range(settings["episodes"]):
        observations, _ = env.reset(seed=settings["evaluation_seed"] + episode)
        while env.agents:
            agents = list(env.agents)
            rows = torch.from_numpy(np.stack([observations[agent] for agent in agents]))
            seen = TensorDict({"agent": TensorDict({"observation": rows}, [AGENTS])}, [])
            with set_exploration_type(exploration):
                actions = experiment.policy(seen)["agent", "action"].tolist()
            observations, rewards, _, _, _ = env.step(dict(zip(agents, actions, strict=True)))
            total += sum(rewards.values()) / AGENTS
    return total / settings["episodes"]


if __name__ == "__main__":
    main()
