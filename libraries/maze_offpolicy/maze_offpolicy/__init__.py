"""What off-policy algorithms share: replay and what fills it, critics of states and actions, target networks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from maze_core.base.lazy_names import lazy_names

if TYPE_CHECKING:
    from maze_offpolicy.collect.action_noise import ActionNoise as ActionNoise
    from maze_offpolicy.collect.epsilon_greedy import EpsilonGreedy as EpsilonGreedy
    from maze_offpolicy.collect.exploring import NoiseColor as NoiseColor
    from maze_offpolicy.collect.exploring import NoiseLongest as NoiseLongest
    from maze_offpolicy.collect.exploring import NoiseName as NoiseName
    from maze_offpolicy.collect.exploring import NoiseSteps as NoiseSteps
    from maze_offpolicy.collect.exploring import NoiseTheta as NoiseTheta
    from maze_offpolicy.collect.exploring import OwnClass as OwnClass
    from maze_offpolicy.collect.exploring import ProcessNoise as ProcessNoise
    from maze_offpolicy.collect.exploring import exploration_of as exploration_of
    from maze_offpolicy.collect.exploring import process_of as process_of
    from maze_offpolicy.collect.noise_processes import Coloured as Coloured
    from maze_offpolicy.collect.noise_processes import NoiseProcess as NoiseProcess
    from maze_offpolicy.collect.noise_processes import OrnsteinUhlenbeck as OrnsteinUhlenbeck
    from maze_offpolicy.collect.noise_processes import Repeated as Repeated
    from maze_offpolicy.collect.noise_processes import White as White
    from maze_offpolicy.collect.replay_collector import ReplayCollector as ReplayCollector
    from maze_offpolicy.collect.replay_memory import ReplayMemory as ReplayMemory
    from maze_offpolicy.collect.replay_memory import TargetMemory as TargetMemory
    from maze_offpolicy.collect.replay_memory import memory_builder as memory_builder
    from maze_offpolicy.collect.run_replay import StoredReplay as StoredReplay
    from maze_offpolicy.collect.sizes import check_replay_sizes as check_replay_sizes
    from maze_offpolicy.collect.sizes import steps_of_each as steps_of_each
    from maze_offpolicy.constraints import replay_costs as replay_costs
    from maze_offpolicy.learn.categorical import cross_entropy as cross_entropy
    from maze_offpolicy.learn.categorical import expectation as expectation
    from maze_offpolicy.learn.categorical import least_distribution as least_distribution
    from maze_offpolicy.learn.categorical import projected as projected
    from maze_offpolicy.learn.categorical import return_distribution as return_distribution
    from maze_offpolicy.learn.critics import critics_of as critics_of
    from maze_offpolicy.learn.deterministic import DeterministicTargets as DeterministicTargets
    from maze_offpolicy.learn.deterministic import check_deterministic as check_deterministic
    from maze_offpolicy.learn.deterministic import critic_and_policy_optimizer as critic_and_policy_optimizer
    from maze_offpolicy.learn.deterministic import most_likely as most_likely
    from maze_offpolicy.learn.quantile_loss import quantile_huber as quantile_huber
    from maze_offpolicy.learn.targets import Target as Target
    from maze_offpolicy.models.critics import StateActionCritics as StateActionCritics
    from maze_offpolicy.models.critics import build_critics as build_critics
    from maze_offpolicy.models.critics import critic_encoders as critic_encoders
    from maze_offpolicy.models.joint_actions import JointActions as JointActions
    from maze_offpolicy.models.joint_actions import bounded_sample as bounded_sample
    from maze_offpolicy.models.joint_actions import check_log_probs as check_log_probs
    from maze_offpolicy.models.joint_actions import check_reparametrised as check_reparametrised
    from maze_offpolicy.models.joint_actions import joined as joined
    from maze_offpolicy.models.stacked_norms import Norm as Norm
    from maze_offpolicy.replay.buffer import ReplayBuffer as ReplayBuffer
    from maze_offpolicy.replay.frames import TRIED as TRIED
    from maze_offpolicy.replay.frames import FrameStack as FrameStack
    from maze_offpolicy.replay.frames import find_stacks as find_stacks
    from maze_offpolicy.replay.joint import Joint as Joint
    from maze_offpolicy.replay.selectors import Drawn as Drawn
    from maze_offpolicy.replay.selectors import Uniform as Uniform
    from maze_offpolicy.replay.transforms import Steps as Steps
    from maze_offpolicy.replay.transforms import Transform as Transform

_HOMES = {
    "ActionNoise": "maze_offpolicy.collect.action_noise",
    "Coloured": "maze_offpolicy.collect.noise_processes",
    "DeterministicTargets": "maze_offpolicy.learn.deterministic",
    "Drawn": "maze_offpolicy.replay.selectors",
    "EpsilonGreedy": "maze_offpolicy.collect.epsilon_greedy",
    "FrameStack": "maze_offpolicy.replay.frames",
    "Joint": "maze_offpolicy.replay.joint",
    "JointActions": "maze_offpolicy.models.joint_actions",
    "NoiseColor": "maze_offpolicy.collect.exploring",
    "NoiseLongest": "maze_offpolicy.collect.exploring",
    "NoiseName": "maze_offpolicy.collect.exploring",
    "NoiseProcess": "maze_offpolicy.collect.noise_processes",
    "NoiseSteps": "maze_offpolicy.collect.exploring",
    "NoiseTheta": "maze_offpolicy.collect.exploring",
    "Norm": "maze_offpolicy.models.stacked_norms",
    "OrnsteinUhlenbeck": "maze_offpolicy.collect.noise_processes",
    "OwnClass": "maze_offpolicy.collect.exploring",
    "ProcessNoise": "maze_offpolicy.collect.exploring",
    "Repeated": "maze_offpolicy.collect.noise_processes",
    "ReplayBuffer": "maze_offpolicy.replay.buffer",
    "ReplayCollector": "maze_offpolicy.collect.replay_collector",
    "ReplayMemory": "maze_offpolicy.collect.replay_memory",
    "StateActionCritics": "maze_offpolicy.models.critics",
    "Steps": "maze_offpolicy.replay.transforms",
    "StoredReplay": "maze_offpolicy.collect.run_replay",
    "TRIED": "maze_offpolicy.replay.frames",
    "Target": "maze_offpolicy.learn.targets",
    "TargetMemory": "maze_offpolicy.collect.replay_memory",
    "Transform": "maze_offpolicy.replay.transforms",
    "Uniform": "maze_offpolicy.replay.selectors",
    "White": "maze_offpolicy.collect.noise_processes",
    "bounded_sample": "maze_offpolicy.models.joint_actions",
    "build_critics": "maze_offpolicy.models.critics",
    "check_deterministic": "maze_offpolicy.learn.deterministic",
    "check_log_probs": "maze_offpolicy.models.joint_actions",
    "check_reparametrised": "maze_offpolicy.models.joint_actions",
    "check_replay_sizes": "maze_offpolicy.collect.sizes",
    "critic_and_policy_optimizer": "maze_offpolicy.learn.deterministic",
    "critic_encoders": "maze_offpolicy.models.critics",
    "critics_of": "maze_offpolicy.learn.critics",
    "cross_entropy": "maze_offpolicy.learn.categorical",
    "expectation": "maze_offpolicy.learn.categorical",
    "exploration_of": "maze_offpolicy.collect.exploring",
    "find_stacks": "maze_offpolicy.replay.frames",
    "joined": "maze_offpolicy.models.joint_actions",
    "least_distribution": "maze_offpolicy.learn.categorical",
    "memory_builder": "maze_offpolicy.collect.replay_memory",
    "most_likely": "maze_offpolicy.learn.deterministic",
    "process_of": "maze_offpolicy.collect.exploring",
    "projected": "maze_offpolicy.learn.categorical",
    "quantile_huber": "maze_offpolicy.learn.quantile_loss",
    "replay_costs": "maze_offpolicy.constraints",
    "return_distribution": "maze_offpolicy.learn.categorical",
    "steps_of_each": "maze_offpolicy.collect.sizes",
}

__all__ = sorted(_HOMES)
__getattr__, __dir__ = lazy_names(__name__, _HOMES)
