"""Names of the core that plugins may still import: the error of such an import says what to write instead."""

from __future__ import annotations

import dis
import re
from collections.abc import Mapping
from itertools import takewhile

_RENAMED: Mapping[str, str] = {
    "maze_compare.board": "maze_compare.table",
    "maze_core.Searcher": "maze_sweep.searchers.base.Searcher",
    "maze_core.Trajectories": "maze_recordings.trajectories.Trajectories",
    "maze_core.TrajectoryWriter": "maze_recordings.writer.TrajectoryWriter",
    "maze_core.acting.agent": "maze_core.collect.agents.agent",
    "maze_core.acting.assembler": "maze_core.collect.assembler",
    "maze_core.acting.drawn": "maze_core.collect.agents.noise_plan",
    "maze_core.acting.exploration": "maze_core.collect.agents.exploration",
    "maze_core.acting.forward": "maze_core.collect.agents.forward",
    "maze_core.acting.lanes": "maze_core.collect.rollouts.agent_row_sink",
    "maze_core.acting.lanes.LaneSink": "maze_core.collect.rollouts.agent_row_sink.AgentRowSink",
    "maze_core.acting.memory": "maze_core.collect.agents.memory",
    "maze_core.acting.network": "maze_core.collect.agents.network",
    "maze_core.acting.noise_plan": "maze_core.collect.agents.noise_plan",
    "maze_core.acting.refusals": "maze_core.collect.agents.refusals",
    "maze_core.acting.replay": "maze_core.collect.replay.sink",
    "maze_core.acting.rollouts": "maze_core.collect.rollouts.sampler",
    "maze_core.acting.rule": "maze_core.collect.agents.rule",
    "maze_core.acting.several": "maze_core.collect.agents.several",
    "maze_core.acting.share": "maze_core.collect.agents.worker_agent",
    "maze_core.acting.single": "maze_core.collect.agents.single",
    "maze_core.acting.stepper": "maze_core.collect.stepper",
    "maze_core.acting.worker_agent": "maze_core.collect.agents.worker_agent",
    "maze_core.averages": "maze_core.base.averages",
    "maze_core.blame": "maze_core.base.blame",
    "maze_core.bundled": "maze_core.base.bundled",
    "maze_core.callbacks.best_checkpoint": "maze_core.run.callbacks.best_checkpoint",
    "maze_core.callbacks.console": "maze_core.cli.console.console",
    "maze_core.callbacks.console_output": "maze_core.cli.console.output",
    "maze_core.callbacks.console_status": "maze_core.cli.console.status",
    "maze_core.callbacks.console_table": "maze_core.cli.console.table",
    "maze_core.callbacks.early_stopping": "maze_core.run.callbacks.early_stopping",
    "maze_core.callbacks.event_file": "maze_tensorboard.event_file",
    "maze_core.callbacks.figures": "maze_tensorboard.figures",
    "maze_core.callbacks.greedy_gap": "maze_core.cli.console.greedy_gap",
    "maze_core.callbacks.jsonl": "maze_core.cli.loggers.jsonl",
    "maze_core.callbacks.point_logger": "maze_core.cli.loggers.point_logger",
    "maze_core.callbacks.points": "maze_core.cli.loggers.points",
    "maze_core.callbacks.tensorboard": "maze_tensorboard.callback",
    "maze_core.cli.algorithm_command": "maze_core.cli.commands.algorithm_command",
    "maze_core.cli.commands": "maze_core.cli.group",
    "maze_core.cli.commands.rollout": "maze_recordings.commands.rollout",
    "maze_core.cli.commands.trajectories": "maze_recordings.commands.trajectories",
    "maze_core.cli.config": "maze_core.cli.commands.config",
    "maze_core.cli.environment_list": "maze_core.cli.commands.environment_list",
    "maze_core.cli.environment_report": "maze_devkit.environment_report",
    "maze_core.cli.envs": "maze_core.cli.commands.envs",
    "maze_core.cli.evaluate": "maze_core.cli.commands.evaluate",
    "maze_core.cli.places": "maze_core.cli.option_paths",
    "maze_core.cli.plugins": "maze_core.cli.commands.plugins",
    "maze_core.cli.resume": "maze_core.cli.commands.resume",
    "maze_core.cli.rollout": "maze_recordings.commands.rollout",
    "maze_core.cli.train": "maze_core.cli.commands.train",
    "maze_core.cli.trajectories": "maze_recordings.commands.trajectories",
    "maze_core.collect.replay.demonstrations.as_trained": "maze_recordings.demonstrations.as_trained",
    "maze_core.collect.rollouts.lane_sink": "maze_core.collect.rollouts.agent_row_sink",
    "maze_core.collect.rollouts.lane_sink.LaneSink": "maze_core.collect.rollouts.agent_row_sink.AgentRowSink",
    "maze_core.comparison": "maze_compare",
    "maze_core.config.base": "maze_core.plugins.config.base",
    "maze_core.config.checksummed_yaml": "maze_core.plugins.config.checksummed_yaml",
    "maze_core.config.explain": "maze_core.plugins.config.explain",
    "maze_core.config.external_fields": "maze_core.plugins.config.external_fields",
    "maze_core.config.flags": "maze_core.plugins.config.flags",
    "maze_core.config.here": "maze_core.plugins.config.here",
    "maze_core.config.load": "maze_core.plugins.config.assembly",
    "maze_core.config.outside": "maze_core.plugins.config.external_fields",
    "maze_core.config.params": "maze_core.plugins.config.params",
    "maze_core.config.plain_yaml": "maze_core.plugins.config.plain_yaml",
    "maze_core.config.presets": "maze_core.plugins.config.presets",
    "maze_core.config.raw": "maze_core.plugins.config.raw",
    "maze_core.config.record": "maze_core.plugins.config.record",
    "maze_core.config.renamed": "maze_core.plugins.config.renamed_keys",
    "maze_core.config.run": "maze_core.plugins.config.run",
    "maze_core.config.sealed": "maze_core.plugins.config.checksummed_yaml",
    "maze_core.config.wrapper_classes": "maze_core.plugins.config.wrapper_classes",
    "maze_core.context": "maze_core.run.context",
    "maze_core.culprit": "maze_core.base.blame",
    "maze_core.data.frames": "maze_core.data.replay.frames",
    "maze_core.data.goals": "maze_core.data.replay.hindsight",
    "maze_core.data.lane_replay.LaneReplay": "maze_core.data.replay.buffer.ReplayBuffer",
    "maze_core.data.lane_segments.LaneSegments": "maze_core.data.replay.by_sequence.BySequence",
    "maze_core.data.minari": "maze_minari.exchange",
    "maze_core.data.prioritized": "maze_core.data.replay.priorities",
    "maze_core.data.recordings.loader": "maze_recordings.loader",
    "maze_core.data.recordings.recording_files": "maze_recordings.recording_files",
    "maze_core.data.recordings.space_json": "maze_recordings.space_json",
    "maze_core.data.recordings.trajectories": "maze_recordings.trajectories",
    "maze_core.data.recordings.trajectories.Trajectory": "maze_core.data.trajectory.Trajectory",
    "maze_core.data.recordings.writer": "maze_recordings.writer",
    "maze_core.data.replay": "maze_core.data.replay.buffer",
    "maze_core.data.replay.log.Rows": "maze_core.data.replay.ring.Ring",
    "maze_core.data.replay.segments": "maze_core.data.sequences",
    "maze_core.data.replay.segments.ReplayedSequences": "maze_core.data.sequences.Sequences",
    "maze_core.data.replay.segments.replayed": "maze_core.data.batch.Batch.sequences",
    "maze_core.data.replay.selectors.DrawnSequences": "maze_core.data.sequences.Sequences",
    "maze_core.data.replay_log": "maze_core.data.replay.log",
    "maze_core.data.rollout.RolloutCollector": "maze_core.RolloutCollector",
    "maze_core.data.rollout.Sampler": "maze_core.collect.rollouts.sampler.Sampler",
    "maze_core.data.segment_replay": "maze_core.data.replay.by_sequence",
    "maze_core.data.segments": "maze_core.data.sequences",
    "maze_core.data.segments.ReplayedSequences": "maze_core.data.sequences.Sequences",
    "maze_core.data.segments.below": "maze_core.base.tree.subtree",
    "maze_core.data.segments.replayed": "maze_core.data.batch.Batch.sequences",
    "maze_core.data.space_json": "maze_recordings.space_json",
    "maze_core.data.trajectories": "maze_recordings.trajectories",
    "maze_core.data.trajectories_files": "maze_recordings.recording_files",
    "maze_core.data.trajectories_loader": "maze_recordings.loader",
    "maze_core.data.trajectories_writer": "maze_recordings.writer",
    "maze_core.environment_variables": "maze_core.base.environment_variables",
    "maze_core.envs.actors": "maze_core.envs.several.actors",
    "maze_core.envs.agents": "maze_core.envs.several.agents",
    "maze_core.envs.episode_log": "maze_core.collect.pools.episode_log",
    "maze_core.envs.event_layers": "maze_core.envs.events.layers",
    "maze_core.envs.events": "maze_core.envs.events.event",
    "maze_core.envs.events.events_of": "maze_core.envs.events.layers.events_of",
    "maze_core.envs.events.events_of_rows": "maze_core.envs.events.layers.events_of_rows",
    "maze_core.envs.factory_source": "maze_core.envs.sources.factory",
    "maze_core.envs.function_wrapper": "maze_core.envs.wrappers.function",
    "maze_core.envs.gymnasium_source": "maze_core.envs.sources.gymnasium",
    "maze_core.envs.gymnasium_wrapper": "maze_core.envs.wrappers.gymnasium",
    "maze_core.envs.histograms": "maze_core.envs.events.histograms",
    "maze_core.envs.imports": "maze_core.envs.sources.imports",
    "maze_core.envs.joint": "maze_devkit.joint",
    "maze_core.envs.kinds": "maze_core.envs.several.kinds",
    "maze_core.envs.lane_rows": "maze_core.envs.several.agent_rows",
    "maze_core.envs.lane_rows.LaneRows": "maze_core.envs.several.agent_rows.AgentRowCodec",
    "maze_core.envs.lanes": "maze_core.envs.several.vector_env",
    "maze_core.envs.lanes.LanesVectorEnv": "maze_core.envs.several.vector_env.AgentsVectorEnv",
    "maze_core.envs.ledger": "maze_core.collect.pools.episode_log",
    "maze_core.envs.mujoco_warnings": "maze_core.envs.sources.mujoco_warnings",
    "maze_core.envs.pool": "maze_core.envs.processes.pool",
    "maze_core.envs.processes": "maze_core.envs.processes.vector_env",
    "maze_core.envs.several.agent_rows.AgentRows": "maze_core.envs.several.agent_rows.AgentRowCodec",
    "maze_core.envs.several.lane_rows": "maze_core.envs.several.agent_rows",
    "maze_core.envs.several.lane_rows.LaneRows": "maze_core.envs.several.agent_rows.AgentRowCodec",
    "maze_core.envs.several.lanes": "maze_core.envs.several.vector_env",
    "maze_core.envs.several.lanes.LanesVectorEnv": "maze_core.envs.several.vector_env.AgentsVectorEnv",
    "maze_core.envs.serial.check_state": "maze_core.envs.recorded_state.check_state",
    "maze_core.envs.serial.share_of_state": "maze_core.envs.recorded_state.share_of_state",
    "maze_core.envs.share_envs": "maze_core.collect.pools.worker_envs",
    "maze_core.envs.shared": "maze_core.envs.processes.shared",
    "maze_core.envs.soundness": "maze_devkit.soundness",
    "maze_core.envs.transitions": "maze_core.data.rollout",
    "maze_core.envs.turns": "maze_core.envs.several.turns",
    "maze_core.envs.worker": "maze_core.envs.processes.worker",
    "maze_core.envs.worker_envs": "maze_core.collect.pools.worker_envs",
    "maze_core.envs.wrapper_carry": "maze_core.envs.wrappers.carry",
    "maze_core.envs.wrapper_memory": "maze_core.envs.wrappers.carry",
    "maze_core.errors": "maze_core.base.errors",
    "maze_core.files": "maze_core.base.files",
    "maze_core.free_memory": "maze_core.base.free_ram",
    "maze_core.free_ram": "maze_core.base.free_ram",
    "maze_core.guarded_folder": "maze_core.base.guarded_folder",
    "maze_core.interruption": "maze_core.base.interruption",
    "maze_core.learn.closed_form.distributions.CategoricalRows": (
        "maze_core.learn.closed_form.distributions.CategoricalDensity"
    ),
    "maze_core.learn.closed_form.distributions.GaussianRows": (
        "maze_core.learn.closed_form.distributions.GaussianDensity"
    ),
    "maze_core.load_trajectories": "maze_recordings.loader.load_trajectories",
    "maze_core.local_modules": "maze_core.base.local_modules",
    "maze_core.models.actor_memory": "maze_core.models.several.actor_memory",
    "maze_core.models.actor_memory.below": "maze_core.base.tree.subtree",
    "maze_core.models.actor_normalizer": "maze_core.models.several.actor_normalizer",
    "maze_core.models.actor_policy": "maze_core.models.several.actor_policy",
    "maze_core.models.delta_values": "maze_core.models.several.delta_values",
    "maze_core.models.groups": "maze_core.models.several.groups",
    "maze_core.models.gru": "maze_core.models.memories.gru_unrolling",
    "maze_core.models.heads.HeadOptions": "maze_core.models.distributions.chosen.HeadOptions",
    "maze_core.models.heads.make_head": "maze_core.models.distributions.chosen.make_head",
    "maze_core.models.joint_actions.check_squashed": "maze_core.models.joint_actions.check_reparametrised",
    "maze_core.models.joint_critic": "maze_core.models.several.joint_critic",
    "maze_core.models.memory.RecurrentMemory": "maze_core.models.memories.recurrent.GruMemory",
    "maze_core.models.memory.WindowMemory": "maze_core.models.memories.window.WindowMemory",
    "maze_core.models.picture": "maze_pictures.network",
    "maze_core.models.routing": "maze_core.models.several.routing",
    "maze_core.plain_json": "maze_core.base.plain_json",
    "maze_core.plugins.configuration": "maze_core.plugins.config.assembly",
    "maze_core.plugins.configuration.check_defaults": "maze_core.plugins.config.preferences.check_defaults",
    "maze_core.plugins.left_aside": "maze_core.plugins.uninstalled_plugins",
    "maze_core.plugins.preferences": "maze_core.plugins.config.preferences",
    "maze_core.plugins.preset_paths": "maze_core.plugins.config.preset_paths",
    "maze_core.plugins.schema": "maze_core.plugins.config.schema",
    "maze_core.plugins.shelves": "maze_core.plugins.config.preset_paths",
    "maze_core.policies.base": "maze_core.collect.policies.base",
    "maze_core.policies.random": "maze_core.collect.policies.random",
    "maze_core.processes": "maze_core.base.processes",
    "maze_core.progress": "maze_core.base.progress",
    "maze_core.run.episodes.episode_recorder": "maze_recordings.episode_recorder",
    "maze_core.run.episodes.rollouts": "maze_recordings.rollouts",
    "maze_core.run.episodes.video": "maze_recordings.films",
    "maze_core.run.episodes.video.Film": "maze_video.film.Film",
    "maze_core.run_parts": "maze_core.run.parts",
    "maze_core.run_sweep": "maze_sweep.api.run_sweep",
    "maze_core.runners.base": "maze_core.collect.pools.runner",
    "maze_core.runners.bell": "maze_core.collect.pools.wakeup",
    "maze_core.runners.dev": "maze_core.collect.pools.dev",
    "maze_core.runners.env_shares": "maze_core.collect.pools.worker_envs_task",
    "maze_core.runners.local": "maze_core.collect.pools.local",
    "maze_core.runners.parameters": "maze_core.collect.pools.parameters",
    "maze_core.runners.pool_processes": "maze_core.collect.pools.processes",
    "maze_core.runners.pool_queued": "maze_core.collect.pools.queued",
    "maze_core.runners.pool_serial": "maze_core.collect.pools.serial",
    "maze_core.runners.pool_worker": "maze_core.collect.pools.process_worker",
    "maze_core.runners.pooled_envs": "maze_core.collect.pools.pooled_envs",
    "maze_core.runners.result_transfer": "maze_core.collect.pools.result_transfer",
    "maze_core.runners.wakeup": "maze_core.collect.pools.wakeup",
    "maze_core.runners.worker_envs_task": "maze_core.collect.pools.worker_envs_task",
    "maze_core.runners.workers": "maze_core.collect.pools.workers",
    "maze_core.scaffold": "maze_devkit.scaffold",
    "maze_core.searchers": "maze_sweep.searchers",
    "maze_core.seeding": "maze_core.base.seeding",
    "maze_core.sweep": "maze_sweep",
    "maze_core.terminal_text": "maze_core.base.terminal_text",
    "maze_core.testing": "maze_devkit",
    "maze_core.tolerant_output": "maze_core.base.tolerant_output",
    "maze_core.training.actor_metrics": "maze_core.collect.rollouts.actor_metrics",
    "maze_core.training.adam": "maze_core.learn.optimizers.adam",
    "maze_core.training.agent_groups": "maze_core.collect.rollouts.agent_groups",
    "maze_core.training.algorithm": "maze_core.learn.algorithm",
    "maze_core.training.api": "maze_core.run.api",
    "maze_core.training.burn_in": "maze_core.learn.on_policy.burn_in",
    "maze_core.training.collector": "maze_core.collect.collector",
    "maze_core.training.critics": "maze_core.learn.off_policy.critics",
    "maze_core.training.demonstrations": "maze_recordings.demonstrations",
    "maze_core.training.deterministic": "maze_core.learn.off_policy.deterministic",
    "maze_core.training.episodes.endless": "maze_core.run.episodes.endless",
    "maze_core.training.episodes.episode_recorder": "maze_recordings.episode_recorder",
    "maze_core.training.episodes.evaluation": "maze_core.run.episodes.evaluation",
    "maze_core.training.episodes.event_statistics": "maze_core.run.episodes.event_statistics",
    "maze_core.training.episodes.played": "maze_recordings.episode_recorder",
    "maze_core.training.episodes.rollouts": "maze_recordings.rollouts",
    "maze_core.training.episodes.run_evaluation": "maze_core.run.episodes.run_evaluation",
    "maze_core.training.episodes.share_evaluation": "maze_core.run.episodes.worker_evaluation",
    "maze_core.training.episodes.statistics": "maze_core.run.episodes.statistics",
    "maze_core.training.episodes.video": "maze_recordings.films",
    "maze_core.training.episodes.worker_evaluation": "maze_core.run.episodes.worker_evaluation",
    "maze_core.training.estimation": "maze_core.run.estimation",
    "maze_core.training.grouped": "maze_core.learn.optimizers.grouped",
    "maze_core.training.initial_parameters": "maze_core.run.saved.initial_parameters",
    "maze_core.training.learning.batch_transfer": "maze_learners.batch_transfer",
    "maze_core.training.learning.gradients": "maze_learners.gradients",
    "maze_core.training.learning.learner": "maze_core.learn.learner",
    "maze_core.training.learning.learner_check": "maze_core.learn.learner_check",
    "maze_core.training.learning.learner_group": "maze_learners.learner_group",
    "maze_core.training.learning.learner_task": "maze_learners.learner_task",
    "maze_core.training.learning.learners": "maze_learners.learners",
    "maze_core.training.learning.several_learners": "maze_core.learn.several_learners",
    "maze_core.training.learning.share_transfer": "maze_learners.batch_transfer",
    "maze_core.training.learning.tensor_layout": "maze_learners.tensor_layout",
    "maze_core.training.loop": "maze_core.run.loop",
    "maze_core.training.off_policy": "maze_core.collect.replay.collector",
    "maze_core.training.off_policy.Guide": "maze_core.collect.replay.collector.ReplayCollector",
    "maze_core.training.on_policy": "maze_core.learn.on_policy.advantages",
    "maze_core.training.pairs": "maze_core.collect.pairs",
    "maze_core.training.process_state": "maze_core.base.process_state",
    "maze_core.training.process_state.graceful_interrupts": "maze_core.base.interruption.graceful_interrupts",
    "maze_core.training.process_state.signal_handlers_kept": "maze_core.base.interruption.signal_handlers_kept",
    "maze_core.training.quantile_loss": "maze_core.learn.off_policy.quantile_loss",
    "maze_core.training.recurrent": "maze_core.learn.on_policy.recurrent",
    "maze_core.training.remembered": "maze_core.learn.on_policy.recurrent",
    "maze_core.training.replay_memory": "maze_core.collect.replay.memory",
    "maze_core.training.replay_memory.check_segments": "maze_core.collect.replay.memory.check_sequences",
    "maze_core.training.replays": "maze_core.collect.replay.stores",
    "maze_core.training.report": "maze_core.run.report",
    "maze_core.training.reward_scale": "maze_core.data.reward_scale",
    "maze_core.training.rmsprop": "maze_core.learn.optimizers.rmsprop",
    "maze_core.training.rollout_collector": "maze_core.collect.rollouts.collector",
    "maze_core.training.run": "maze_core.run.run",
    "maze_core.training.run_dir": "maze_core.run.saved.run_dir",
    "maze_core.training.run_dir.CONFIG": "maze_core.plugins.config.record.CONFIG",
    "maze_core.training.run_dir.RECORD": "maze_core.plugins.config.record.RECORD",
    "maze_core.training.run_dir.encoded_record": "maze_core.plugins.config.record.encoded_record",
    "maze_core.training.run_dir.read_record": "maze_core.plugins.config.record.read_record",
    "maze_core.training.run_dir.write_record": "maze_core.plugins.config.record.write_record",
    "maze_core.training.run_environments": "maze_core.run.environments",
    "maze_core.training.run_progress": "maze_core.run.progress",
    "maze_core.training.run_state": "maze_core.run.state",
    "maze_core.training.saved.append_only": "maze_core.run.saved.append_only",
    "maze_core.training.saved.checkpoint": "maze_core.run.saved.checkpoint",
    "maze_core.training.saved.kept": "maze_core.run.saved.kept_state",
    "maze_core.training.saved.manifest": "maze_core.run.saved.manifest",
    "maze_core.training.saved.metrics_file": "maze_core.run.saved.metrics_file",
    "maze_core.training.saved.run_record": "maze_core.run.saved.run_record",
    "maze_core.training.saved.state_files": "maze_core.run.saved.state_files",
    "maze_core.training.saved_evaluation": "maze_core.run.episodes.saved_evaluation",
    "maze_core.training.saved_run": "maze_core.run.saved.saved_run",
    "maze_core.training.schedules": "maze_core.learn.schedules",
    "maze_core.training.seeding": "maze_core.base.seeding",
    "maze_core.training.setting_names": "maze_core.plugins.config.setting_names",
    "maze_core.training.surrogate": "maze_core.learn.on_policy.surrogate",
    "maze_core.training.targets": "maze_core.learn.off_policy.targets",
    "maze_core.training.workers.assignment": "maze_core.collect.workers.assignment",
    "maze_core.training.workers.remote": "maze_core.collect.workers.remote",
    "maze_core.training.workers.share_replay": "maze_core.collect.workers.remote",
    "maze_core.training.workers.share_sampler": "maze_core.collect.workers.remote",
    "maze_core.training.workers.share_task": "maze_core.collect.workers.assignment",
    "maze_core.tree": "maze_core.base.tree",
    "maze_impala.actor.Delivery": "maze_core.data.rollout.Rollout",
    "maze_ray.line": "maze_ray.socket_channel",
    "maze_video.studio": "maze_video.recorder",
    "maze_wrappers.record": "maze_recordings.record",
}
_METHODS: Mapping[str, Mapping[str, str]] = {
    "algorithm": {
        "train_epoch": "yield the batches of one update from `batches`, and let `epoch_length` say how many updates an "
        "epoch has"
    },
}
"""Methods that earlier versions called, by kind of plugin, and what to write instead."""
_MEMBERS: Mapping[tuple[str, str], str] = {
    ("BySequence", "lanes"): "agent_rows",
    ("Decision", "lane"): "agent_row",
    ("Pieces", "lanes"): "columns",
    ("ReplayBuffer", "lanes"): "agent_rows",
    ("Run", "build"): "maze_core.run.building.build",
    ("Run", "fall_back"): "run.saving.fall_back",
    ("Run", "initialize"): "maze_core.run.building.initialize",
    ("Run", "load_checkpoint"): "run.saving.load",
}
"""Attributes and arguments of a class under their earlier names, and what they are called now."""
_ARGUMENT = re.compile(r"(\w+)\.__init__\(\) got an unexpected keyword argument '(\w+)'")
_FROM = re.compile(r"cannot import name '(\w+)' from '([\w.]+)'")


def instead(error: BaseException) -> str:
    """Return what to write instead of an earlier name that failed, as the end of a sentence; empty if it is not one."""
    if not isinstance(error, ImportError):
        owner, name = _member(error)
        new = _MEMBERS.get((owner, name))
        return f"; {name} of {owner} is {new} now" if new else ""
    for asked in _asked(error):
        name = asked
        while name:
            if name in _RENAMED:
                new = _RENAMED[name]
                distribution = new.partition(".")[0].replace("_", "-")
                where = "" if distribution == "maze-core" else f" of the distribution {distribution}"
                return f"; {name} is {new}{where} now"
            name = name.rpartition(".")[0]
    return ""


def outdated(kind: str, plugin: type) -> str:
    """Return which method of a plugin class is no longer called, and what to write instead; empty if there is none."""
    for method, following in _METHODS.get(kind, {}).items():
        if hasattr(plugin, method):
            return f"its {method} is no longer called: {following}"
    return ""


def _member(error: BaseException) -> tuple[str, str]:
    """Return the class and the name of an attribute or of an argument that it does not have."""
    if isinstance(error, AttributeError):
        return type(error.obj).__name__, error.name or ""
    found = _ARGUMENT.match(str(error)) if isinstance(error, TypeError) else None
    return (found[1], found[2]) if found else ("", "")


def _asked(error: ImportError) -> list[str]:
    """Return the names that an import asked for, the most exact first.

    Where a folder is gone, the error names only the folder; the statement that failed names the module.
    """
    if found := _FROM.match(str(error)):
        return [f"{found[2]}.{found[1]}"]
    name = error.name or ""
    step = error.__traceback__
    while step is not None and step.tb_next is not None:
        step = step.tb_next
    if step is None:
        return [name]
    instructions = [each for each in dis.get_instructions(step.tb_frame.f_code) if each.offset >= step.tb_lasti]
    if not instructions or instructions[0].opname != "IMPORT_NAME" or not instructions[0].argval.startswith(name):
        return [name]
    module = instructions[0].argval
    following = takewhile(lambda each: each.opname in ("IMPORT_FROM", "STORE_NAME", "STORE_FAST"), instructions[1:])
    members = [f"{module}.{each.argval}" for each in following if each.opname == "IMPORT_FROM"]
    return [*(each for each in members if each in _RENAMED), module, name]
