"""AlphaZero (Silver et al. 2018): the network learns what a search with it found, and the search asks the network."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from typing import Any, ClassVar

from gymnasium.spaces import Discrete
from maze_planning.planner import Planner

from maze_core import Algorithm, Batch, ConfigError, Loss, Policy, Run, hookimpl
from maze_search.config import AlphaZeroConfig
from maze_search.search import Search, log_probs
from maze_search.self_play import SelfPlay


class AlphaZero(Algorithm):
    """Tree search with a network that learns from it, for Discrete actions, in games of two in turns and alone."""

    Config = AlphaZeroConfig
    config: AlphaZeroConfig
    needs_critic = True
    supports_agents = True
    supports_learners = True
    action_spaces = (Discrete,)
    calls = ("compute_loss", "build_planner")
    columns: ClassVar[Mapping[str, str]] = {"loss/policy": "policy", "loss/value": "value"}
    defaults: ClassVar[Mapping[str, Mapping[str, Any]]] = {"model": {"critic": "shared"}}

    def setup(self, run: Run) -> None:
        """Build what plays.

        Raises:
            ConfigError: more than two agents act, or the environment cannot be copied.
        """
        self._run, agents = run, run.rows_of(1)
        if agents > 2:
            problem = f"alphazero plays alone or in games of two, and {agents} agents act in this environment"
            raise ConfigError(problem, "env", "Next: maze train ppo.")
        self._self_play = self.keep("self_play", SelfPlay(run, self.config))

    @hookimpl
    def build_planner(self, policy: Policy, purpose: str) -> Planner:
        """Return the search, which explores while it collects data."""
        return Search(policy, self.config, explores=purpose == "training")

    def batches(self) -> Iterator[Batch]:
        """Play, then yield positions of finished episodes."""
        config = self.config
        self._self_play.play(config.n_rollout_steps)
        for _ in range(config.num_batches_per_iter):
            yield self._self_play.sample(config.batch_size)

    def loss_constants(self) -> Hashable:
        """Return nothing: the loss depends on tensors alone."""
        return ()

    @hookimpl
    def compute_loss(self, policy: Policy, batch: Batch) -> Loss:
        """Return the cross-entropy of visits and policy, the squared error of the value, and the squared parameters."""
        config, (distribution, value) = self.config, policy(batch.obs)
        entropy = -(batch.extra["visits"] * log_probs(distribution)).sum(-1).mean()
        error = (value - batch.extra["outcome"]).square().mean()
        squares = sum(each.square().sum() for each in policy.parameters() if each.requires_grad)
        total = entropy + config.value_loss_coef * error + config.weight_decay * squares
        return Loss(total, {"policy": entropy.detach(), "value": error.detach()})
