"""Parallelised Q-network: Q-learning without replay and target network (Gallici et al., arXiv 2407.04811)."""

from __future__ import annotations

from collections.abc import Generator, Hashable, Iterator
from typing import TYPE_CHECKING, Any, ClassVar

from gymnasium.spaces import Dict, Discrete, MultiBinary, MultiDiscrete
from maze_onpolicy import RolloutCollector, advantage_rows

from maze_core import Algorithm, Batch, Loss, Purpose, generator, hookimpl
from maze_dqn.config import PQNConfig
from maze_dqn.exploration import epsilon_greedy
from maze_dqn.network import ValueNetwork, value_network
from maze_dqn.returns import Expected

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gymnasium import Space

    from maze_core import AlgorithmConfig, PluginConfig, Policy, Run


class PQN(Algorithm[ValueNetwork]):
    """Deep Q-learning from many environments side by side, for discrete actions of every kind."""

    Config: ClassVar[type[AlgorithmConfig]] = PQNConfig
    config: PQNConfig
    needs_critic = False
    action_spaces = (Discrete, MultiDiscrete, MultiBinary, Dict)
    calls = ("compute_loss", *RolloutCollector.calls)
    columns: ClassVar[Mapping[str, str]] = {"loss/value": "value", "loss/q": "q", "train/epsilon": "epsilon"}
    defaults: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "model": {"hidden": [128, 128], "activation": "relu", "layer_norm": True}
    }

    @hookimpl(wrapper=True)
    def build_policy(
        self, observation_space: Space[Any], action_space: Space[Any], config: PluginConfig
    ) -> Generator[None, Policy, ValueNetwork]:
        """Replace the heads of the model's policy by values."""
        return value_network((yield), Expected(), config)

    def setup(self, run: Run) -> None:
        """Build the collector with its exploration."""
        config = self.config
        self._run = run
        exploration = epsilon_greedy(run, config, config.num_envs)
        collector = RolloutCollector(run, config.n_rollout_steps, config.num_envs, exploration)
        self._collector = self.keep("collector", collector)
        self._order = self.keep("order", generator(run.seed, Purpose.MINIBATCH_ORDER))

    def batches(self) -> Iterator[Batch]:
        """Collect a rollout, compute the returns once, then yield shuffled minibatches of several passes.

        A return is r + discount * (lambda * the next return + (1 - lambda) * the value of the best next action), which
        is the advantage of `advantage_rows` plus the value. It ends with the episode and with the rollout.
        """
        config, run = self.config, self._run
        run.record({"train/epsilon": config.epsilon})
        rollout = self._collector.collect()
        rows, metrics = advantage_rows(run.policy, rollout, config.gamma, config.q_lambda, run.device)
        run.record(metrics)
        for _ in range(config.n_optimization_epochs):
            yield from rows.minibatches(config.batch_size, self._order)
        self._collector.update_normalizer()

    def loss_constants(self) -> Hashable:
        """Return nothing: the loss depends on tensors alone."""
        return ()

    @hookimpl
    def compute_loss(self, policy: ValueNetwork, batch: Batch) -> Loss:
        """Return half the squared distance of the values of the actions taken from their returns."""
        chosen = policy.at(policy.atoms(batch.obs), policy.actions.indices(batch.actions)).squeeze(-1)
        loss = 0.5 * (chosen - batch.extra["target"].unsqueeze(-1)).square().mean()
        return Loss(loss, {"value": loss.detach(), "q": chosen.detach().mean()})
