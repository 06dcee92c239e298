"""What off-policy algorithms share: collecting transitions into a replay buffer."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar

from maze_onpolicy import RemoteStepper, can_share_replay
from maze_onpolicy.collect.training_agent import training_agent

from maze_core import POLICY, Collector, Count, EpisodeSeeds, Purpose, generator, subtree, varies
from maze_core.collect.agents.network import NetworkAgent, NoiseSource
from maze_core.collect.agents.rule import RuleAgent
from maze_core.collect.policies.base import build_policy_plugin
from maze_core.collect.stepper import Stepper
from maze_core.plugins.config.assembly import policy_part
from maze_offpolicy.collect.demonstrations import load_demonstrations
from maze_offpolicy.collect.replay_sink import ReplaySink
from maze_offpolicy.collect.run_replay import StoredReplay, replay_of
from maze_offpolicy.collect.sizes import check_replay_sizes, check_sequences, steps_of_each
from maze_offpolicy.replay.by_sequence import BySequence

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from maze_core import Batch, VectorEnv
    from maze_core.collect.agents.agent import Exploration
    from maze_core.envs.vector import Episode, StepResult
    from maze_core.plugins.hookspecs import Run
    from maze_offpolicy.collect.demonstrations import Demonstrations
    from maze_offpolicy.collect.replay_memory import ReplayMemory
    from maze_offpolicy.replay.selectors import Selector
    from maze_offpolicy.replay.transforms import Transform

_FIRST = 1
# Separates the first policy's random numbers from the policy's noise.


class ReplayCollector(Collector):
    """Collects transitions of N training environments into a replay buffer, and saves the buffer with each checkpoint.

    A step is one forward pass for all environments, one vector step and writes into the buffer's arrays. Where the
    runner has workers that can do the same, they take the `n_steps` on their own (`RemoteStepper`).

    Args:
        run: provides environments, policy and counters.
        n_steps: steps of each environment in one `collect`.
        num_envs: N; copies, where several agents have a row each.
        capacity: rows of the buffer.
        exploration: None: actions are samples of the policy; otherwise they are its most likely ones, changed by it.
        initial_steps: steps in the buffer before learning begins; None: 1,000, or as many as it holds.
        first_policy: the policy plugin that takes them: its name, or a mapping with name and parameters.
        demonstrations: folder of recorded episodes that the buffer receives instead of these steps; None: none.
        priority_exponent: as for `ReplayBuffer`; None: steps are sampled uniformly.
        utd: updates for each environment step (update-to-data ratio), as `collect` counts them.
        memory: how sequences are drawn for a policy that remembers; None: single steps, for other policies.
        her_goals: goals reached later for each own one, in samples of a step (hindsight experience replay); 0: none.
        selector: draws the rows of batches, for policies without memory; None: by `priority_exponent`.
        transforms: change sampled steps, one after the other, behind the exchange of goals.
        noise: what samples are drawn with; None: independent numbers of a generator of the run.
        seen: called with the result of each step of the environments.

    Raises:
        ConfigError: sizes contradict each other, the buffer does not fit into memory, there is no such policy plugin,
            the environments have no goals to exchange, or the demonstrations do not fit into the buffer.
        MazeError: the demonstrations cannot be loaded, or were recorded in other spaces.
    """

    calls: ClassVar[tuple[str, ...]] = ("build_planner", "change_transitions")

    def __init__(
        self,
        run: Run,
        n_steps: int,
        num_envs: int,
        capacity: int,
        exploration: Exploration | None = None,
        *,
        initial_steps: int | None = None,
        first_policy: str | dict[str, Any] = "random",
        demonstrations: Path | None = None,
        priority_exponent: float | None = None,
        utd: float = 1.0,
        memory: ReplayMemory | None = None,
        her_goals: int = 0,
        selector: Selector | None = None,
        transforms: Sequence[Transform] = (),
        noise: NoiseSource | None = None,
        seen: Callable[[StepResult], None] | None = None,
    ) -> None:
        initial_steps = min(1_000, capacity) if initial_steps is None else initial_steps
        check_replay_sizes(run.config, capacity, num_envs, 0 if demonstrations else initial_steps)
        if memory is not None:
            check_sequences(run.config, memory, capacity, num_envs, run.rows_of(num_envs))
        self._run, self._n_steps, self._initial_steps = run, n_steps, initial_steps
        run.hooks.announce(*self.calls)
        run.explores = exploration is not None
        self._utd = Fraction(str(utd))  # exactly what was written: 0.1 is a tenth
        self._due = 0  # as many parts of an update as the denominator of `utd` says
        shared = run.planning("training") is None and can_share_replay(run, n_steps, num_envs, exploration)
        self._env = env = run.training_env(num_envs)
        if noise is None:
            self._agent = training_agent(run, env, exploration)
        else:
            self._agent = NetworkAgent.sampling(run.policy, env.num_envs, noise)
        self._first_agent = _first_policy(run, first_policy, env)
        seeds = EpisodeSeeds(run.seed, Purpose.TRAIN_EPISODES)
        self._planning = run.planning_agent(self._agent, env, seeds)
        # The sink counts each step when it sees it, so exploration that follows the count changes within a collection.
        self._remote = RemoteStepper.of(run, env, seeds, self._agent, n_steps, counted=True) if shared else None
        self._stepper = self._remote or Stepper(env, seeds)
        self._warm, self._seen = False, seen
        self.ended: list[Episode] = []
        """The episodes that ended in the last collection."""
        self.replay = replay_of(run, env, capacity, priority_exponent, memory, her_goals, selector, transforms)
        self._stored = StoredReplay(run, self.replay)
        self._sink = ReplaySink(self.replay, env, run.policy.normalizer, run.device, self._count)
        self._demonstrations = demonstrations
        if demonstrations is not None and run.run_dir is None:  # a new run: check before its folder is created
            self._load_demonstrations(demonstrations)

    @property
    def env(self) -> VectorEnv:
        """The training environments."""
        return self._env

    @property
    def on_workers(self) -> bool:
        """True where workers take the steps of a collection on their own, False where this process leads each step."""
        return self._remote is not None

    @property
    def disk_bytes(self) -> int:
        """The most bytes that the rows take on disk."""
        return self._stored.disk_bytes

    # Collecting

    def _load_demonstrations(self, path: Path) -> Demonstrations:
        return load_demonstrations(self._run, self._env, path, self.replay.capacity)

    def warm_up(self) -> bool:
        """Add the demonstrations, or let the first policy act until the buffer has received `initial_steps` steps.

        It may take up to N - 1 steps more, since the environments step together. Returns False if the run was
        interrupted before.
        """
        if self._warm:
            return True
        if self._demonstrations is not None:
            for episode in self._load_demonstrations(self._demonstrations):
                self.replay.add_episode(episode)
        elif not self._take_first_steps():
            return False
        self._warm = True
        return True

    def _take_first_steps(self) -> bool:
        # A planner follows the episodes that the first policy begins: it goes on with them.
        agent = (self._planning or self._agent).beside(self._first_agent)
        self._begin()
        while self.replay.steps < self._initial_steps or not self.replay.ready:
            if self._run.interrupted or self._run.steps_done:
                return False
            missing = max(1, steps_of_each(self._initial_steps - self.replay.steps, self._env.num_envs))
            if self._remote is None or not self._remote.take(self._first_agent, self._sink, missing):
                self._stepper.step(agent, self._sink)
            self._run.keep_state()
        if self._agent.memory is not None and isinstance(self.replay.selector, BySequence):
            # It goes on with these episodes.
            remembered = self.replay.selector.memory(*self._sink.open)
            self._agent.memory.load_state(subtree(remembered, f"{POLICY}/"))
        return True

    def collect(self) -> int:
        """Step every environment `n_steps` times with the current policy; return the number of updates that are due.

        It is `utd` for each step that was taken. A fraction that is left counts in the next call.
        """
        self._begin()
        self.ended.clear()
        before = self.replay.steps
        if self._remote is not None:
            self._remote.collect(self._sink)
        else:
            self._agent.expect(self._n_steps)
            self._stepper.step(self._planning or self._agent, self._sink, self._n_steps)
        parts, whole = self._utd.as_integer_ratio()
        due, self._due = divmod(self._due + parts * (self.replay.steps - before), whole)
        return due

    def sample(self, batch_size: int, gamma: float, n_step: int = 1, stretch: int = 1, beta: float = 0.0) -> Batch:
        """Return a batch of the buffer's transitions on the run's device; arguments as for `ReplayBuffer.sample`.

        Plugins may change the batch (hook `change_transitions`).
        """
        return self._stored.sample(batch_size, gamma, n_step, stretch, beta)

    def _begin(self) -> None:
        if not self._stepper.started:
            self._stepper.reset(self._sink.obs)
            self._sink.begin()

    def _count(self, result: StepResult) -> None:
        self._run.count_env_steps(result.steps)
        self._run.statistics.add(result.episodes)
        self.ended += result.episodes
        if self._seen is not None:
            self._seen(result)

    # Saving

    def state(self) -> dict[str, Any]:
        """Write new rows to disk; return all random states, that of the environments, and which rows belong to it."""
        return {
            **self._stepper.state(),
            **(self._planning or self._agent).state(),
            "first_policy": self._first_agent.state(),
            "warm": self._warm,
            "due": varies([self._due, self._utd.denominator], [Count(), Count(1)]),
            **self._stored.state(),
            "sink": self._sink.state(),
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore the result of `state()`, with the same rows; unfinished episodes are replayed.

        Raises:
            CheckpointError: rows on disk are missing or damaged.
            ConfigError: the state is of another number of environments.
        """
        (self._planning or self._agent).load_state(state)
        self._first_agent.load_state(state["first_policy"])
        self._due = int(Fraction(*state["due"]) % 1 * self._utd.denominator)
        self._stored.load_state(state)
        self._warm = state["warm"] and self.replay.ready
        self._sink.load_state(state["sink"])
        self._stepper.restore(state, self._sink.obs)
        if self._stepper.started:
            self._sink.begin()
            self._sink.forget(self._stepper.begun)

    def prune(self) -> None:
        """Delete rows on disk that no checkpoint refers to."""
        self._stored.prune()


def _first_policy(run: Run, part: str | dict[str, Any], env: VectorEnv) -> RuleAgent:
    """Return an agent for the policy plugin that acts until the buffer has enough steps to learn from.

    `part`: the plugin's name, or a mapping with its name and parameters.
    """
    named = hasattr(run.config.algorithm, "initial_sampling_policy")
    where = "algorithm.initial_sampling_policy" if named else "first_policy"
    config = policy_part(part, where, run.config.algorithm)
    policy = build_policy_plugin(config, env.observation_space, env.action_space)
    rngs = [generator(run.seed, Purpose.POLICY_NOISE, _FIRST, row) for row in range(env.num_envs)]
    return RuleAgent(policy, rngs, env.action_space)
