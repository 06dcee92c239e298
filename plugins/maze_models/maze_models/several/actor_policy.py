"""The policy of an environment in which several actors act: each row goes to the network of its actor."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from maze_actors.groups import ONE_HOT, Group, group_spaces, groups_of
from maze_actors.routes import SCALAR, Blank, DenseRoute, IndexRoute, Route, RoutedLeaf
from torch import Tensor, nn

from maze_core.base.errors import ConfigError, PluginError
from maze_core.data.batch import to_tensors
from maze_core.envs.actors import ACTOR, ELAPSED, ActorId, actors_of, is_for_critics, keys_below
from maze_core.envs.spaces import allocate, flatten_space, space_specs
from maze_core.models.building import build_checked
from maze_core.models.distributions.base import TreeDistribution
from maze_core.models.memory import remembers
from maze_models.several.actor_memory import group_sequences, put_ended, put_state, taken_state
from maze_models.several.actor_normalizer import ActorNormalizer
from maze_models.several.critics import JointCritic, build_joint_critic, summed_values

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gymnasium import Space

    from maze_core.base.tree import TensorTree
    from maze_core.data.sequences import Sequences
    from maze_core.models.building import Build
    from maze_core.models.distributions.base import Noise
    from maze_models.scored_choices import Described
    from maze_models.several.actor_memory import Acting

_DELTA = "turn/critic/value"
"""What a critic of differences remembers: the value of the last row."""


class ActorPolicy(nn.Module):
    """Policies of groups of actors behind the interface of one `Policy`.

    A group's policy gets the rows in which one of its actors acts, with the leaves of their kind, as it would in an
    environment of its own. The distribution has all action leaves; in each row only those of its actor count.

    A policy that remembers has a memory for each actor of a stream, which sees the rows of this actor alone.

    Args:
        observation_space: the environment's, with `turn/actor`.
        action_space: the environment's, a part for each kind.
        groups: they contain each actor once.
        policies: those of the groups, in the same order.
        joint_critic: the critic of all actors; None: each group's policy has its own.
        delta_critic: critics estimate what a turn adds to the value of the turn before it in the same decision, which
            the policy therefore remembers.
    """

    _group_of: Tensor
    _position: Tensor

    def __init__(
        self,
        observation_space: Space[Any],
        action_space: Space[Any],
        groups: Sequence[Group],
        policies: Sequence[nn.Module],
        joint_critic: JointCritic | None = None,
        *,
        delta_critic: bool = False,
    ) -> None:
        super().__init__()
        self.observation_space, self.action_space = observation_space, action_space
        self.groups = tuple(groups)
        self._names = _actors(observation_space).names
        # torch forbids submodules named like a method ("type", "half"); groups may have such names.
        names = [f"{group.name}_policy" for group in groups]
        self.policies = nn.ModuleDict(dict(zip(names, policies, strict=True)))
        self._policies: list[Any] = list(policies)
        self.joint_critic = joint_critic
        self.delta_critic = delta_critic
        self.has_critic = joint_critic is not None or all(policy.has_critic for policy in self._policies)
        self.dense = False
        """True: every network works on all rows, and results are selected; see `batchable` of the core."""
        leaves, actions = flatten_space(observation_space, "observation"), flatten_space(action_space, "action")
        above = {key: key for key in leaves if is_for_critics(key)}
        self._leaves = [{**keys_below(group.kind, leaves, "observation"), **above} for group in groups]
        self._knows_actor = [ONE_HOT in flatten_space(each.observation_space, "observation") for each in self._policies]
        self._actions = [keys_below(group.kind, actions, "action") for group in groups]
        places = {actor: (g, place) for g, group in enumerate(groups) for place, actor in enumerate(group.actors)}
        group_of, position = zip(*(places[actor] for actor in sorted(places)), strict=True)
        self.register_buffer("_group_of", torch.tensor(group_of), persistent=False)
        self.register_buffer("_position", torch.tensor(position), persistent=False)
        self._blanks = self._look_at_actions()

    @property
    def normalizer(self) -> ActorNormalizer | None:
        """The observation normalisers of the groups as one; None where no group has one."""
        having = [number for number, policy in enumerate(self._policies) if policy.normalizer is not None]
        if not having:
            return None
        groups, leaves = [self.groups[number] for number in having], [self._leaves[number] for number in having]
        normalizers = [self._policies[number].normalizer for number in having]
        critic = self.joint_critic
        if critic is not None and critic.normalizers:
            groups += [replace(group, name=f"{group.name}_of_critic") for group in critic.groups]
            normalizers, leaves = normalizers + critic.normalizers, leaves + critic.keys
        return ActorNormalizer(groups, normalizers, leaves)

    @property
    def described(self) -> Described:
        """The actions of the groups whose choices are scored by their features."""
        named = zip(self.groups, self._policies, strict=True)
        return {
            f"{group.name}/{key}": its
            for group, policy in named
            for key, its in getattr(policy, "described", {}).items()
        }

    def normalized(self, obs: TensorTree) -> TensorTree:
        """Return the observations with the leaves of each row's actor as its policy sees them."""
        normalizer = self.normalizer
        if normalizer is None:
            return obs
        seen: TensorTree = normalizer(obs)
        return seen

    def distribution(self, obs: TensorTree, sequences: Sequences | None = None) -> TreeDistribution:
        """Return the distribution of the acting actors' actions for B observations; `sequences` as in `Policy`."""
        route = self._route(obs)
        asked = self._asked(route, obs, sequences)
        return self._joined(route, {group: self._policies[group].distribution(*its) for group, its in asked.items()})

    def value(self, obs: TensorTree, sequences: Sequences | None = None) -> Tensor:
        """Return the estimate of the return by the critic of each row's group, or by that of all, [B].

        Raises:
            ConfigError: the policy was built without a critic.
        """
        return self._summed(self._estimates(obs, sequences), obs, sequences)[0]

    def forward(self, obs: TensorTree, sequences: Sequences | None = None) -> tuple[TreeDistribution, Tensor]:
        """Return distribution and value [B] in one pass."""
        if self.joint_critic is not None:
            return self.distribution(obs, sequences), self.value(obs, sequences)
        route = self._route(obs)
        asked = self._asked(route, obs, sequences)
        results = {group: self._policies[group](*its) for group, its in asked.items()}
        distribution = self._joined(route, {group: result[0] for group, result in results.items()})
        values = route.put({group: result[1] for group, result in results.items()}, SCALAR)
        return distribution, self._summed(values, obs, sequences)[0]

    def _estimates(self, obs: TensorTree, sequences: Sequences | None) -> Tensor:
        """Return what the critics estimate, [B]."""
        if self.joint_critic is not None:
            return self.joint_critic.forward(obs)
        route = self._route(obs)
        asked = self._asked(route, obs, sequences)
        return route.put({group: self._policies[group].value(*its) for group, its in asked.items()}, SCALAR)

    def _summed(self, found: Tensor, obs: TensorTree, sequences: Sequences | None) -> tuple[Tensor, TensorTree]:
        """Return values [B] from what critics estimate, and the last ones of the sequences where that is remembered."""
        if not self.delta_critic:
            return found, {}
        if sequences is None:
            raise PluginError(
                "a critic that adds up the turns of a decision was given rows without their sequences. "
                "Next: pass `batch.sequences`"
            )
        values, last = summed_values(found, obs[ELAPSED] == 0, sequences, sequences.state[_DELTA])
        return values, {_DELTA: last}

    # Memory: each actor remembers its own rows of a stream

    @property
    def remembers(self) -> bool:
        """True where the rows before a row decide too."""
        return self.delta_critic or any(remembers(policy) for policy in self._policies)

    def initial_state(self, rows: int) -> TensorTree:
        """Return what is remembered where episodes begin, leaves [rows, …], named `ACTOR/…`."""
        state = {
            f"{self._names[actor]}/{key}": leaf
            for group, policy in zip(self.groups, self._policies, strict=True)
            for actor in group.actors
            for key, leaf in policy.initial_state(rows).items()
        }
        return {**state, _DELTA: torch.zeros(rows, device=self._group_of.device)} if self.delta_critic else state

    def step(self, obs: TensorTree, state: TensorTree) -> tuple[TreeDistribution, TensorTree]:
        """Return the distributions for the next row of B streams, and what is remembered after it."""
        route, found, following = self._route(obs), {}, dict(state)
        for group in route.groups:
            actors = {actor: self._names[actor] for actor in self.groups[group].actors}
            before = taken_state(route, group, obs[ACTOR], actors, state)
            found[group], after = self._policies[group].step(self._seen(route, group, obs), before)
            following |= put_state(route, group, obs[ACTOR], actors, state, after)
        return self._joined(route, found), following

    def unroll(self, obs: TensorTree, sequences: Sequences) -> tuple[TreeDistribution, Tensor, TensorTree]:
        """Return distribution, value [B] and what is remembered after each sequence, leaves [S, …]."""
        if self.joint_critic is not None:
            value, last = self._summed(self.joint_critic.forward(obs), obs, sequences)
            return self.distribution(obs, sequences), value, {**sequences.state, **last}
        route, found, values, after = self._route(obs), {}, {}, dict(sequences.state)
        for group, seen, own, acting in self._read(route, obs, sequences):
            if own is None:
                found[group], values[group] = self._policies[group](seen)
            else:
                found[group], values[group], ended = self._policies[group].unroll(seen, own)
                after |= put_ended(acting, ended, after)
        value, last = self._summed(route.put(values, SCALAR), obs, sequences)
        return self._joined(route, found), value, {**after, **last}

    def critic_state(self, obs: TensorTree, sequences: Sequences) -> TensorTree:
        """Return what critics alone remember after each sequence, leaves [S, …]; empty without such memories."""
        route, after = self._route(obs), dict(sequences.state)
        for group, seen, own, acting in self._read(route, obs, sequences):
            if own is not None:
                after |= put_ended(acting, self._policies[group].critic_state(seen, own), after)
        if self.delta_critic:
            after |= self._summed(self._estimates(obs, sequences), obs, sequences)[1]
        return {key: leaf for key, leaf in after.items() if key.partition("/")[2].startswith("critic/")}

    def state_after(self, obs: TensorTree, sequences: Sequences) -> TensorTree:
        """Return what is remembered after each sequence of observations, leaves [S, …]."""
        route, after = self._route(obs), dict(sequences.state)
        for group, seen, own, acting in self._read(route, obs, sequences):
            after |= put_ended(acting, self._policies[group].state_after(seen, own), after)
        return after

    def _asked(self, route: Route, obs: TensorTree, sequences: Sequences | None) -> dict[int, tuple[Any, ...]]:
        """Return what each group's policy is given: its rows, and their sequences where it remembers."""
        read = self._read(route, obs, sequences)
        return {group: (seen,) if own is None else (seen, own) for group, seen, own, _ in read}

    def _read(
        self, route: Route, obs: TensorTree, sequences: Sequences | None
    ) -> Iterator[tuple[int, TensorTree, Sequences | None, Acting]]:
        """Yield each group, its rows, and where it remembers their sequences and in which of the batch actors act."""
        for group in route.groups:
            seen = self._seen(route, group, obs)
            if sequences is None or not isinstance(route, IndexRoute) or not remembers(self._policies[group]):
                yield group, seen, None, []
                continue
            actors = {actor: self._names[actor] for actor in self.groups[group].actors}
            yield group, seen, *group_sequences(sequences, obs[ACTOR], route.rows(group), actors)

    def draw_noise(self, shape: tuple[int, ...], generator: torch.Generator) -> TensorTree:
        """Return noise for `sample`, leaves [*shape, …], for the actions of every kind, whoever acts."""
        noise: TensorTree = {}
        for policy, actions in zip(self._policies, self._actions, strict=True):
            if noise.keys() >= actions.keys():
                continue
            drawn = policy.draw_noise(shape, generator)
            noise |= {full: drawn[own] for full, own in actions.items() if own in drawn}
        return noise

    @property
    def noise(self) -> dict[str, Noise]:
        """What a row of noise holds, by action leaf, for those whose heads say so."""
        found: dict[str, Noise] = {}
        for policy, actions in zip(reversed(self._policies), reversed(self._actions), strict=True):
            own = getattr(policy, "noise", {})  # of the first group of a kind, as `draw_noise` does
            found |= {full: own[key] for full, key in actions.items() if key in own}
        return found

    def _route(self, obs: TensorTree) -> Route:
        kind = DenseRoute if self.dense else IndexRoute
        return kind(self._group_of[obs[ACTOR]], len(self.groups))

    def _seen(self, route: Route, group: int, obs: TensorTree) -> TensorTree:
        """Return what the policy of a group sees."""
        seen = {own: route.take(group, obs[full]) for full, own in self._leaves[group].items()}
        if self._knows_actor[group]:
            seen[ONE_HOT] = self._position[route.take(group, obs[ACTOR])]
        return seen

    def _joined(self, route: Route, found: dict[int, TreeDistribution]) -> TreeDistribution:
        leaves: dict[str, Any] = {}
        for full, (sample, action) in self._blanks.items():
            parts = {
                group: each.parts[self._actions[group][full]]
                for group, each in found.items()
                if full in self._actions[group]
            }
            leaves[full] = RoutedLeaf(route, parts, sample, action)
        return TreeDistribution(leaves)

    def _look_at_actions(self) -> dict[str, tuple[Blank, Blank]]:
        """Return what samples and actions of each leaf look like, from one row of zeros for each group."""
        blanks: dict[str, tuple[Blank, Blank]] = {}
        with torch.no_grad():
            for policy, actions in zip(self._policies, self._actions, strict=True):
                zeros = allocate(space_specs(policy.observation_space, "observation"), (1,))
                obs = to_tensors(zeros)
                if remembers(policy):
                    distribution, _ = policy.step(obs, policy.initial_state(1))
                else:
                    distribution = policy.distribution(obs)
                mode = distribution.mode()
                taken = distribution.env_action(mode)
                blanks |= {full: (Blank.like(mode[own]), Blank.like(taken[own])) for full, own in actions.items()}
        return blanks


def _actors(observation_space: Space[Any]) -> ActorId:
    actors = actors_of(observation_space)
    if actors is None:
        raise ConfigError(f"the observation space has no leaf {ACTOR!r} that is an ActorId", "env")
    return actors


def build_actor_policy(
    build: Build, actors: ActorId, observation_space: Space[Any], action_space: Space[Any], config: Any
) -> ActorPolicy:
    """Return the policy of several actors, built by a model plugin for each group; arguments as for `build_policy`.

    Raises:
        ConfigError: the groups do not fit the actors.
    """
    for key in getattr(config, "choice_features", ()):
        if key.partition("/")[0] not in actors.kinds:
            raise ConfigError(
                f"no actor has the action {key!r}",
                f"model.choice_features.{key}",
                f"It begins with the actor's kind: {', '.join(actors.kinds)}.",
            )
    groups = groups_of(actors, getattr(config, "groups", "shared"))
    critic = build_joint_critic(build, actors, observation_space, action_space, config)
    own = config if critic is None else config.model_copy(update={"critic": "none"})
    one_hot, policies = getattr(config, "actor_one_hot", True), []
    for group in groups:
        try:
            spaces = group_spaces(group, observation_space, action_space, one_hot and len(group.actors) > 1)
            its = own.for_kind(group.kind) if hasattr(own, "for_kind") else own
            policies.append(build_checked(build, *spaces, its))
        except ConfigError as error:
            error.args = (f"{error.args[0]}\nThis concerns the actors of the group {group.name!r}.",)
            raise
    delta = getattr(config, "delta_critic", False) and config.critic != "none"
    return ActorPolicy(observation_space, action_space, groups, policies, critic, delta_critic=delta)
