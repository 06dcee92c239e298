"""The faults that `mutants.py` puts into the code, and the tests that must notice them, by room."""

from __future__ import annotations

from dataclasses import dataclass

KNOWN = "tests/training/test_known_answers.py"
ROOMS: dict[str, tuple[str, ...]] = {
    "assembler": (
        "tests/acting/test_agent_rows.py",
        "tests/maze_offpolicy/test_agent_replay.py",
        "tests/memory/test_agent_rows.py",
        KNOWN,
    ),
    "memory": ("tests/memory/test_acting.py", "tests/memory/test_agent_rows.py", "tests/memory/test_policies.py"),
    "returns": (
        "tests/maze_onpolicy/test_returns.py",
        "tests/maze_onpolicy/test_vtrace.py",
        "tests/maze_onpolicy/test_discounts.py",
        KNOWN,
    ),
    "losses": (
        "tests/maze_onpolicy/test_surrogate.py",
        "tests/maze_ppo/test_losses.py",
        "tests/maze_sac/test_critics.py",
    ),
    "on-policy": ("tests/maze_onpolicy/test_on_policy.py",),
    "masks": ("tests/models/test_discrete_distributions.py", "tests/training/test_masks.py"),
    "priorities": ("tests/maze_offpolicy/test_prioritized.py",),
    "replay": (
        "tests/maze_offpolicy/test_replay.py",
        "tests/maze_offpolicy/test_by_sequence.py",
        "tests/maze_offpolicy/test_hindsight.py",
    ),
    "workers": ("tests/training/test_worker_rollouts.py",),
    "resume": ("tests/training/test_resume.py",),
    "evaluation": ("tests/training/test_evaluation.py", "tests/callbacks/test_best_and_early_stopping.py"),
    "recordings": ("tests/maze_recordings/test_rollouts.py", "tests/maze_recordings/test_agents_recordings.py"),
    "wrappers": ("tests/maze_wrappers/test_runs.py", "tests/maze_wrappers/test_reward_oracle.py"),
    "config": ("tests/config/test_raw.py", "tests/plugins/test_configuration.py"),
    "command": ("tests/cli/test_errors.py",),
    "seeds": ("tests/test_seeding.py", "tests/training/test_evaluation.py"),
    "acting": ("tests/acting/test_stepping.py",),
    "compiled": (
        "tests/training/test_changing_steps.py",
        "tests/training/test_compared_steps.py",
        "tests/training/test_compiled.py",
        "tests/training/test_filled_batches.py",
    ),
    "first batches": ("tests/maze_sac/test_schedule.py",),
    "seams": (
        "tests/test_bundled.py",
        "tests/maze_foreign_envs/test_interfaces.py",
        "tests/training/test_compiled.py",
        "tests/context/test_parts.py",
        "tests/distributions/test_outsiders.py",
        "tests/training/test_worker_rollouts.py",
        "tests/maze_devkit/test_broken_plugins.py",
    ),
}
"""The test files of each room, of which the fast tests run."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """One fault."""

    name: str
    room: str
    file: str
    text: str
    """What is there now, once."""
    replacement: str

    def applied(self, source: str) -> str:
        """Return a source file with the fault. Raises ValueError where the text is not there exactly once."""
        if (count := source.count(self.text)) != 1:
            raise ValueError(f"{self.name}: {self.file} has its text {count} times: {self.text!r}")
        return source.replace(self.text, self.replacement)


_ASSEMBLER = "libraries/maze_onpolicy/maze_onpolicy/collect/assembler.py"
_RETURNS = "libraries/maze_onpolicy/maze_onpolicy/data/returns.py"
_ADVANTAGES = "libraries/maze_onpolicy/maze_onpolicy/learn/advantages.py"
_PRIORITIES = "libraries/maze_offpolicy/maze_offpolicy/replay/priorities.py"
_BUFFER = "libraries/maze_offpolicy/maze_offpolicy/replay/buffer.py"
_LOOK_AHEAD = "libraries/maze_offpolicy/maze_offpolicy/replay/look_ahead.py"
_SEQUENCES = "libraries/maze_offpolicy/maze_offpolicy/replay/by_sequence.py"
_LEARNER = "maze_core/learn/learner.py"
_NETWORK = "maze_core/collect/agents/network.py"
_EVALUATION = "maze_core/run/episodes/evaluation.py"
_RECORDER = "plugins/maze_recordings/maze_recordings/episode_recorder.py"
_STATE = "maze_core/run/progress.py"

MUTANTS = (
    Mutant(
        "a reward is dropped while its agent waits",
        "assembler",
        _ASSEMBLER,
        "paid = np.flatnonzero(self.open & (result.reward != 0))",
        "paid = np.flatnonzero(self.open & result.valid)",
    ),
    Mutant(
        "ends and cuts are exchanged",
        "assembler",
        _ASSEMBLER,
        "            ends[rows] & result.terminated[rows],\n            ends[rows] & result.truncated[rows],\n",
        "            ends[rows] & result.truncated[rows],\n            ends[rows] & result.terminated[rows],\n",
    ),
    Mutant(
        "the last observation of an episode is forgotten",
        "assembler",
        _ASSEMBLER,
        "if result.final_obs is not None and ends.any():",
        "if result.final_obs is not None and not ends.any():",
    ),
    Mutant(
        "the log-probability of an open action is forgotten",
        "assembler",
        _ASSEMBLER,
        "self.log_prob[rows] = log_prob(*trees)",
        "log_prob(*trees)",
    ),
    Mutant(
        "a transition keeps the rewards of the one before",
        "assembler",
        _ASSEMBLER,
        "        self._reward[rows] = self._raw[rows] = 0\n",
        "",
    ),
    Mutant(
        "what was remembered before an open action is forgotten",
        "assembler",
        _ASSEMBLER,
        "            put_rows(self.before, rows, take_rows(to_arrays(self._memory.before), rows))\n",
        "            pass\n",
    ),
    Mutant(
        "who waits remembers what it did not act on",
        "memory",
        "maze_core/collect/agents/row_memory.py",
        "with_rows(state, index, take_rows(self.before, index))",
        "dict(state)",
    ),
    Mutant(
        "an episode begins with the memory of the last one",
        "memory",
        "maze_core/collect/agents/row_memory.py",
        "with_rows(self._state, index, fresh)",
        "dict(self._state)",
    ),
    Mutant(
        "a cut episode goes on with the next one's value",
        "returns",
        _ADVANTAGES,
        "next_values[times, np.concatenate([rows for _, rows, _ in cut])] = _values(value, finals)",
        "_values(value, finals)",
    ),
    Mutant(
        "an end is discounted like any step",
        "returns",
        "libraries/maze_onpolicy/maze_onpolicy/data/discounts.py",
        "np.where(rollout.terminated, 0.0, factor)",
        "np.where(rollout.terminated, gamma, factor)",
    ),
    Mutant(
        "advantages run on into the next episode",
        "returns",
        _RETURNS,
        "decay = discounts * (continues * gae_lambda)",
        "decay = discounts * gae_lambda",
    ),
    Mutant(
        "V-trace's traces are not clipped",
        "returns",
        "libraries/maze_onpolicy/maze_onpolicy/data/vtrace.py",
        "discounts * np.minimum(ratios, 1)",
        "discounts * ratios",
    ),
    Mutant(
        "the ratio is not clipped",
        "losses",
        "libraries/maze_onpolicy/maze_onpolicy/learn/surrogate.py",
        "(ratio * loss).clamp(min=loss - clip_range * size if scheduled else torch.sub(loss, size, alpha=clip_range))",
        "ratio * loss",
    ),
    Mutant(
        "tau is turned round",
        "losses",
        "libraries/maze_offpolicy/maze_offpolicy/learn/targets.py",
        "torch._foreach_lerp_(self._followers, self._leaders, tau)",
        "torch._foreach_lerp_(self._followers, self._leaders, 1 - tau)",
    ),
    Mutant(
        "the normaliser learns before the values",
        "on-policy",
        "plugins/maze_a2c/maze_a2c/a2c.py",
        "        rollout = self._collector.collect()\n",
        "        rollout = self._collector.collect()\n        self._collector.update_normalizer()\n",
    ),
    Mutant(
        "the normaliser learns before the log-probabilities",
        "on-policy",
        "plugins/maze_ppo/maze_ppo/ppo.py",
        "        rollout = self._collector.collect()\n",
        "        rollout = self._collector.collect()\n        self._collector.update_normalizer()\n",
    ),
    Mutant(
        "masks do not forbid",
        "masks",
        "maze_core/models/distributions/discrete.py",
        "logits.masked_fill(mask == 0, _MASKED)\n        self._log_probs",
        "logits\n        self._log_probs",
    ),
    Mutant(
        "importance weights are turned round",
        "priorities",
        _PRIORITIES,
        "((values.min() / values) ** beta)",
        "((values / values.max()) ** beta)",
    ),
    Mutant(
        "a new step has any priority",
        "priorities",
        _PRIORITIES,
        "self._tree.set(slots, self.largest)",
        "self._tree.set(slots, 1.0)",
    ),
    Mutant(
        "an ended episode is bootstrapped",
        "replay",
        _LOOK_AHEAD,
        "discount[going] = gamma ** (k + 1) * ~columns.terminated[here]",
        "discount[going] = gamma ** (k + 1)",
    ),
    Mutant(
        "returns look beyond their sequence",
        "replay",
        _LOOK_AHEAD,
        "ends |= left[going] == k + 1",
        "ends |= left[going] == k + 2",
    ),
    Mutant(
        "last observations lie in the wrong rows",
        "replay",
        _BUFFER,
        "count + np.arange(ended) - result.final_indices",
        "count + np.arange(ended)",
    ),
    Mutant(
        "the burn-in begins in the episode before",
        "replay",
        _SEQUENCES,
        "self._steps[agent_rows] = self._burnt[agent_rows] = 0\n        self._fresh",
        "self._steps[agent_rows] = 0\n        self._fresh",
    ),
    Mutant(
        "what is remembered has read the burn-in twice",
        "replay",
        _SEQUENCES,
        "put_rows(self._state, agent_rows, self._after(agent_rows, read))",
        "put_rows(self._state, agent_rows, self._after(agent_rows, known))",
    ),
    Mutant("a target writes into its leader's memory", "replay", _SEQUENCES, "leaf.copy() for", "leaf for"),
    Mutant(
        "sequences whose rows were overwritten are drawn",
        "replay",
        "libraries/maze_offpolicy/maze_offpolicy/replay/sequence_index.py",
        '(records["first"] >= oldest_row) & known',
        "known",
    ),
    Mutant(
        "another goal leaves the reward",
        "replay",
        "libraries/maze_offpolicy/maze_offpolicy/replay/hindsight.py",
        "steps.reward[changed] = self._rewards(reached, goals)",
        "self._rewards(reached, goals)",
    ),
    Mutant(
        "workers explore as if steps were counted within a rollout",
        "workers",
        "libraries/maze_onpolicy/maze_onpolicy/collect/rollout_collector.py",
        "n_steps, counted=False)",
        "n_steps, counted=True)",
    ),
    Mutant(
        "the optimizer is not saved",
        "resume",
        _LEARNER,
        '"optimizer": saved_optimizer(self.optimizer),',
        '"optimizer": {**saved_optimizer(self.optimizer), "state": {}},',
    ),
    Mutant(
        "the optimizer is not loaded",
        "resume",
        _LEARNER,
        "restore(optimizer, state[name])",
        "state[name]",
    ),
    Mutant(
        "a resumed run draws other noise",
        "resume",
        _NETWORK,
        'load_random_state(self.generator, state["noise"])',
        'state["noise"]',
    ),
    Mutant(
        "a resumed run draws other random numbers of torch",
        "resume",
        "maze_core/run/saving.py",
        '        run.torch_rng = saved["torch_rng"]\n',
        "",
    ),
    Mutant(
        "evaluations draw their actions",
        "evaluation",
        _EVALUATION,
        "NetworkAgent(policy, None if deterministic else SharedNoise(rows, noise), masks=masks)",
        "NetworkAgent(policy, SharedNoise(rows, noise), masks=masks)",
    ),
    Mutant(
        "the worst checkpoint is the best",
        "evaluation",
        _STATE,
        "(-violation, score) > best)",
        "(-violation, score) < best)",
    ),
    Mutant(
        "a tie is an improvement",
        "evaluation",
        _STATE,
        "        if is_best:\n            self.best_score, self.best_violation",
        "        if is_best or ties_best:\n            self.best_score, self.best_violation",
    ),
    Mutant(
        "recordings lose the last observation",
        "recordings",
        _RECORDER,
        "np.stack([*(each.obs[key][k] for each, k in steps), last])",
        "np.stack([*(each.obs[key][k] for each, k in steps), steps[-1][0].obs[key][steps[-1][1]]])",
    ),
    Mutant(
        "the first wrapper is outermost",
        "wrappers",
        "maze_core/plugins/members.py",
        "for i, config in enumerate(configs)]",
        "for i, config in enumerate(configs)][::-1]",
    ),
    Mutant(
        "an override of what is set is ignored",
        "config",
        "maze_core/plugins/config/raw.py",
        "                tree[key] = beginning_at(",
        "                tree[key] = tree.get(key) or beginning_at(",
    ),
    Mutant(
        "a part keeps the parameters of another plugin",
        "config",
        "maze_core/plugins/config/raw.py",
        'return "name" in old and "name" in new and old["name"] != new["name"]',
        "return False",
    ),
    Mutant(
        "wrong input ends with exit code 1",
        "command",
        "maze_core/base/errors.py",
        'what to do next."""\n\n    exit_code = 2\n',
        'what to do next."""\n\n    exit_code = 1\n',
    ),
    Mutant(
        "every episode of an environment has one seed",
        "seeds",
        "maze_core/base/seeding.py",
        "return int(values[offset])",
        "return int(values[0])",
    ),
    Mutant(
        "evaluations play the same episodes in every epoch",
        "seeds",
        "maze_core/run/episodes/run_evaluation.py",
        "EpisodeSeeds(self._seed, Purpose.EVAL_EPISODES, (number,), stride",
        "EpisodeSeeds(self._seed, Purpose.EVAL_EPISODES, (0,), stride",
    ),
    Mutant(
        "acting goes on with parameters that lie elsewhere now",
        "acting",
        "maze_core/models/plain.py",
        "            and [tensor.data_ptr() for tensor in self._tensors] == self._places\n",
        "",
    ),
    Mutant(
        "acting goes on with modules that were exchanged",
        "acting",
        _NETWORK,
        "if not self._forward.is_current():",
        "if False:",
    ),
    Mutant(
        "every larger rollout is compiled anew",
        "compiled",
        "plugins/maze_compile/maze_compile/steps.py",
        " or len(batch) < self._least",
        "",
    ),
    Mutant(
        "rows that fill a batch up weigh as much as others",
        "compiled",
        "plugins/maze_compile/maze_compile/filling.py",
        "found[: self._rows - missing] = 1 / (self._rows - missing)",
        "found[:] = 1 / self._rows",
    ),
    Mutant(
        "batches with less than half of the rows are filled up",
        "compiled",
        "plugins/maze_compile/maze_compile/filling.py",
        " or 2 * missing > rows",
        "",
    ),
    Mutant(
        "rows that fill a batch up have results",
        "compiled",
        "plugins/maze_compile/maze_compile/steps.py",
        "if rows < with_further:",
        "if False:",
    ),
    Mutant(
        "a compiled step keeps the clipping that it was compiled with",
        "compiled",
        "plugins/maze_compile/maze_compile/surroundings.py",
        "            run.learner.max_grad_norm,\n",
        "",
    ),
    Mutant(
        "a compiled step is compared with the code no more",
        "compiled",
        "plugins/maze_compile/maze_compile/comparison.py",
        "return left > 0 or (run.epoch != epoch and run.learner.steps - step >= self._apart)",
        "return False",
    ),
    Mutant(
        "further rows draw random numbers",
        "compiled",
        "plugins/maze_compile/maze_compile/steps.py",
        " or (rows < with_further and repeated.draws)",
        "",
    ),
    Mutant(
        "one gradient that is nan makes all of them nan",
        "compiled",
        "plugins/maze_compile/maze_compile/compiled.py",
        "torch.where(norm.isnan(), 1.0, clip_factor(norm, limit))",
        "clip_factor(norm, limit)",
    ),
    Mutant(
        "a compiled step whose loss is not finite is taken",
        "compiled",
        "plugins/maze_compile/maze_compile/compiled.py",
        "(norm + total).abs() <= torch.finfo(total.dtype).max",
        "torch.ones_like(norm).bool()",
    ),
    Mutant(
        "a compiled step of Adam keeps the decay that it was compiled with",
        "compiled",
        "plugins/maze_compile/maze_compile/traced_adam.py",
        "square = self._square * decay",
        "square = self._square * 0.999",
    ),
    Mutant(
        "small batches last one update longer",
        "first batches",
        "plugins/maze_sac/maze_sac/sac.py",
        "self._run.learner.steps >= config.early_updates",
        "self._run.learner.steps > config.early_updates",
    ),
    Mutant(
        "what a distribution needs is not installed with it",
        "seams",
        "maze_core/plugins/how_to_install.py",
        "if each in distributions() and not _is_installed(each)",
        "if not each",
    ),
    Mutant(
        "what is installed is named once more",
        "seams",
        "maze_core/plugins/how_to_install.py",
        " and not _is_installed(each)",
        "",
    ),
    Mutant(
        "a requirement of an extra is taken for one",
        "seams",
        "maze_core/plugins/how_to_install.py",
        '"" if "extra ==" in requirement else ',
        "",
    ),
    Mutant(
        "compiling that nothing can do is silent",
        "seams",
        "maze_core/learn/taken_over.py",
        'if config.compile == "on":',
        'if config.compile == "never":',
    ),
    Mutant(
        "steps are compiled where that is off",
        "seams",
        "maze_core/learn/taken_over.py",
        'else config.compile != "off"):',
        "else True):",
    ),
    Mutant(
        "an old reset is taken for one with a seed",
        "seams",
        "maze_core/envs/interfaces.py",
        "(is_old(env) if old_api is None else old_api)",
        "old_api",
    ),
    Mutant(
        "an environment that nothing converts is silent",
        "seams",
        "maze_core/envs/interfaces.py",
        "    if converted is None:\n        raise",
        "    if converted is None:\n        return env\n        raise",
    ),
    Mutant(
        "ids of other packages are unknown without a word",
        "seams",
        "maze_core/envs/interfaces.py",
        "if module in _MAKERS:",
        "if not module:",
    ),
    Mutant(
        "a library that only an extra asks for counts",
        "seams",
        "plugins/maze_devkit/maze_devkit/general.py",
        'if line.marker is None or "extra" not in str(line.marker)',
        "if line",
    ),
    Mutant(
        "a distribution without a divergence passes",
        "seams",
        "libraries/maze_onpolicy/maze_onpolicy/learn/divergence.py",
        "if not has_divergence(type(part)):",
        "if not part:",
    ),
    Mutant(
        "a policy that draws by itself acts in workers",
        "seams",
        "maze_core/collect/agents/network.py",
        "return not torch.equal(before, torch.get_rng_state())",
        "return False",
    ),
)
