"""The policy: encoders, action heads and critic behind one interface."""

from __future__ import annotations

from numbers import Integral
from typing import TYPE_CHECKING, Any, cast

from torch import Tensor, nn

from maze_core.base.errors import ConfigError, PluginError
from maze_core.base.tree import subtree
from maze_core.envs.masks import mask_leaves
from maze_core.envs.spaces import flatten_space
from maze_core.models.blocks import Dense, initialize_orthogonal
from maze_core.models.distributions.base import TreeDistribution
from maze_core.models.distributions.chosen import HeadOptions, described_choices, make_head, make_scored_head
from maze_core.models.inputs import joined_mask

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import torch
    from gymnasium import Space

    from maze_core.base.tree import TensorTree
    from maze_core.data.sequences import Sequences
    from maze_core.models.distributions.base import Noise
    from maze_core.models.memory import Memory


_OWNERS = {"memory": "policy", "critic_memory": "critic"}
"""The first part of the names of each memory's state."""


_OF_A_HEAD = (
    "`shape`, `draw_noise` and `forward(features, mask)`, as a maze_core.models.distributions.family.FamilyHead has"
)


class Policy(nn.Module):
    """Observation trees → action distributions and state values.

    An encoder is a module with an integer `out_features` that maps an observation tree (leaves [B, …], in
    storage dtype) to features [B, out_features]. With `critic_encoder` None the critic uses the policy's
    encoder. Each action leaf has its own head, which reads its mask where the observation has
    one.

    With `make_memory`, which builds a memory for features of a width, the policy remembers: what it does in a row
    depends on the rows before it in the episode. It then acts with `step`, and learns from `sequences` of rows. A
    critic with an encoder of its own has a memory of its own.
    """

    logits_are_values = False
    """True where the logits of choices are their values: viewers would show probabilities otherwise."""
    hears = False
    """True where past actions and rewards decide too, not observations alone: `heard` takes them. Such a policy
    remembers."""

    def __init__(
        self,
        observation_space: Space[Any],
        action_space: Space[Any],
        encoder: nn.Module,
        critic_encoder: nn.Module | None = None,
        *,
        has_critic: bool = True,
        head_options: HeadOptions | None = None,
        normalizer: nn.Module | None = None,
        make_memory: Callable[[int], Memory | None] | None = None,
    ) -> None:
        super().__init__()
        self.observation_space, self.action_space = observation_space, action_space
        self.has_critic = has_critic
        self.normalizer: Any = normalizer
        """What scales the observations, from leaves [B, …] to the same; None: nothing."""
        self.encoder = encoder
        actions = flatten_space(action_space, "action")
        options = head_options or HeadOptions()
        self.make_memory = make_memory
        self.memory = None if make_memory is None else make_memory(feature_count(encoder))
        self.remembers = self.memory is not None
        """True where the rows before a row decide too."""
        features = feature_count(encoder if self.memory is None else self.memory)
        self.described = described_choices(observation_space, action_space, options.choice_features)
        """The actions whose choices are scored by the features that observations describe them with."""
        heads: dict[str, nn.Module] = {}
        for key, space in actions.items():
            own = self.described.get(key)
            heads[key] = (
                make_head(key, space, features, options)
                if own is None
                else make_scored_head(key, space, own, features, options)
            )
        # torch forbids submodules named like a method ("type", "half"); actions may have such names.
        self.heads = nn.ModuleDict({f"{key}_head": head for key, head in heads.items()})
        masks = mask_leaves(observation_space, action_space)
        self._leaves = [(key, masks.get(key), f"{key}_head") for key in heads]
        self.critic_encoder: nn.Module | None = None
        self.critic_memory: Memory | None = None
        if has_critic:
            self._add_critic(critic_encoder)

    def __setattr__(self, name: str, value: Any) -> None:
        """Set an attribute. Raises PluginError for a property: torch would keep a module, and nobody use it."""
        found = getattr(type(self), name, None)
        if isinstance(found, property) and found.fset is None:
            first = next((each for _, _, each in vars(self).get("_leaves", ())), "action_head")
            hint = f": it lists what is in policy.heads. Next: policy.heads[{first!r}] = …, with {_OF_A_HEAD}"
            raise PluginError(f"policy.{name} cannot be set{hint if name == 'action_heads' else ''}")
        super().__setattr__(name, value)

    @property
    def action_heads(self) -> list[tuple[str, Sequence[str] | None, Any]]:
        """Action key, leaves of the mask (None: unmasked) and head of each action leaf, as they are in `heads`.

        Raises:
            PluginError: one is missing, or is no head.
        """
        found: list[tuple[str, Sequence[str] | None, Any]] = []
        for key, mask, name in self._leaves:
            head = cast("Any", self._modules["heads"])._modules.get(name)
            if not hasattr(head, "shape") or not hasattr(head, "draw_noise"):
                raise PluginError(
                    f"policy.heads[{name!r}] is {type(head).__name__}, which is no head: it needs {_OF_A_HEAD}"
                )
            found.append((key, mask, head))
        return found

    def normalized(self, obs: TensorTree) -> TensorTree:
        """Return the observations as the policy's networks see them, for critics outside the policy; leaves [B, …]."""
        if self.normalizer is None:
            return obs
        normalized: TensorTree = self.normalizer(obs)
        return normalized

    def distribution(self, obs: TensorTree, sequences: Sequences | None = None) -> TreeDistribution:
        """Return the action distribution for B observations, leaves [B, …]; `sequences` for a policy that remembers."""
        encoder = cast("nn.Module", self._modules["encoder"])  # as an attribute it costs a microsecond
        features = encoder(self.normalized(obs))
        if self.remembers:
            features = self._unrolled("memory", features, sequences)
        return self._distribution(obs, features)

    def value(self, obs: TensorTree, sequences: Sequences | None = None) -> Tensor:
        """Return the critic's estimate of the return from B observations, [B].

        Raises:
            ConfigError: the policy was built without a critic.
        """
        if not self.has_critic:
            raise ConfigError("this policy has no critic", where="model.critic", hint="Set it to separate or shared.")
        encoder = self.encoder if self.critic_encoder is None else self.critic_encoder
        features = encoder(self.normalized(obs))
        if self.remembers:
            features = self._unrolled(self._critic_memory_name, features, sequences)
        return self.value_head.forward(features).squeeze(-1)

    def forward(self, obs: TensorTree, sequences: Sequences | None = None) -> tuple[TreeDistribution, Tensor]:
        """Return distribution and value [B] in one pass; shared layers are computed once."""
        if self.remembers:
            normalized = self.normalized(obs)
            features = self._unrolled("memory", self.encoder(normalized), sequences)
            seen = features
            if self.critic_encoder is not None:
                seen = self._unrolled("critic_memory", self.critic_encoder(normalized), sequences)
            return self._distribution(obs, features), self.value_head.forward(seen).squeeze(-1)
        if self.critic_encoder is not None:
            obs_normalized = self.normalized(obs)
            value = self.value_head.forward(self.critic_encoder(obs_normalized)).squeeze(-1)
            return self._distribution(obs, self.encoder(obs_normalized)), value
        if not self.has_critic:
            return self.distribution(obs), self.value(obs)
        features = self.encoder(self.normalized(obs))
        return self._distribution(obs, features), self.value_head.forward(features).squeeze(-1)

    # Memory

    def initial_state(self, rows: int) -> TensorTree:
        """Return what is remembered where episodes begin, leaves [rows, …]; empty for a policy without memory."""
        memories = {"policy": self.memory, "critic": self.critic_memory}
        return {
            f"{owner}/{key}": leaf
            for owner, memory in memories.items()
            if memory is not None
            for key, leaf in memory.initial_state(rows).items()
        }

    def step(self, obs: TensorTree, state: TensorTree) -> tuple[TreeDistribution, TensorTree]:
        """Return the distributions for the next row of B streams, and what is remembered after it.

        The memory of the critic alone, which does not act, stays: `critic_state` returns it.
        """
        features = self.encoder(self.normalized(obs))
        if self.memory is None:
            return self._distribution(obs, features), state
        features, after = self.memory.step(features, _part(state, "policy"))
        return self._distribution(obs, features), {**state, **{f"policy/{key}": leaf for key, leaf in after.items()}}

    def heard(self, state: TensorTree, actions: TensorTree, rewards: Tensor) -> TensorTree:
        """Return what is remembered once the last row's actions were executed and paid; by default the same.

        Args:
            state: after the last `step`, leaves [B, …].
            actions: in environment units, leaves [B, …]; environments clip Boxes to their bounds.
            rewards: as the wrappers make them, [B].
        """
        return state

    def unroll(self, obs: TensorTree, sequences: Sequences) -> tuple[TreeDistribution, Tensor, TensorTree]:
        """Return distribution, value [B] and what is remembered after each sequence, leaves [S, …].

        Gradients do not reach what is remembered; `forward` is faster where it is not needed.
        """
        normalized = self.normalized(obs)
        features, after = self._after("memory", self.encoder(normalized), sequences)
        seen = features
        if self.critic_encoder is not None:
            seen, critics = self._after("critic_memory", self.critic_encoder(normalized), sequences)
            after = {**after, **critics}
        return self._distribution(obs, features), self.value_head.forward(seen).squeeze(-1), after

    def critic_state(self, obs: TensorTree, sequences: Sequences) -> TensorTree:
        """Return what the critic alone remembers after each sequence, leaves [S, …]; empty without such a memory."""
        if self.critic_memory is None or self.critic_encoder is None:
            return {}
        return self._after("critic_memory", self.critic_encoder(self.normalized(obs)), sequences)[1]

    def state_after(self, obs: TensorTree, sequences: Sequences) -> TensorTree:
        """Return what is remembered after each sequence of observations, leaves [S, …]; no distribution is computed."""
        after = self._after("memory", self.encoder(self.normalized(obs)), sequences)[1]
        return {**after, **self.critic_state(obs, sequences)}

    @property
    def _critic_memory_name(self) -> str:
        return "memory" if self.critic_encoder is None else "critic_memory"

    def _unrolled(self, name: str, features: Tensor, sequences: Sequences | None) -> Tensor:
        """Return features [B, F] after a memory."""
        if sequences is None:
            raise PluginError(
                "a policy that remembers was given rows without their sequences. "
                "Next: pass `batch.sequences`, or act with `policy.step`"
            )
        memory: Any = self._modules[name]
        state = _part(sequences.state, _OWNERS[name])
        return sequences.restored(memory.unroll(sequences.ordered(features), sequences, state))

    def _after(self, name: str, features: Tensor, sequences: Sequences) -> tuple[Tensor, TensorTree]:
        """Return features [B, F] after a memory, and its states after each sequence."""
        memory: Any = self._modules[name]
        owner = _OWNERS[name]
        out, after = memory.after(sequences.ordered(features), sequences, _part(sequences.state, owner))
        return sequences.restored(out), {f"{owner}/{key}": leaf for key, leaf in after.items()}

    # Building

    def _add_critic(self, encoder: nn.Module | None) -> None:
        self.critic_encoder = encoder
        own = encoder is not None and self.make_memory is not None
        self.critic_memory = self.make_memory(feature_count(encoder)) if own else None  # type: ignore[misc, arg-type]
        # The value head reads the last of the layers before it: the critic's own, else those of the policy.
        parts = (self.critic_memory, encoder, self.memory, self.encoder)
        self.value_head = Dense(feature_count(next(part for part in parts if part is not None)), 1)

    def replace_critic(self, encoder: nn.Module) -> None:
        """Give the critic its own encoder, and a new value head."""
        self._add_critic(encoder)
        initialize_orthogonal(self.value_head, 1.0)

    def draw_noise(self, shape: tuple[int, ...], generator: torch.Generator) -> TensorTree:
        """Return noise for `sample`, leaves [*shape, …] on the generator's device; a rollout's shape is (steps, B)."""
        return {key: head.draw_noise((*shape, *head.shape), generator) for key, _, head in self.action_heads}

    @property
    def noise(self) -> dict[str, Noise]:
        """What a row of noise holds, by action leaf, for those whose heads say so."""
        return {key: head.noise for key, _, head in self.action_heads if getattr(head, "noise", None)}

    def plain_heads(self) -> list[tuple[str, Any]] | None:
        """Return what alone turns features into the actions, by leaf; None: masks or a memory take part.

        Where it is known, acting goes without torch, which is faster. A class of its own that gets its actions in
        another way defines it again, or acts through torch.
        """
        if self.remembers or any(mask is not None for _, mask, _ in self.action_heads):
            return None
        return [(key, head) for key, _, head in self.action_heads]

    def _distribution(self, obs: TensorTree, features: Tensor) -> TreeDistribution:
        heads = cast("Any", self._modules["heads"])._modules  # as attributes they cost a microsecond
        described = self.described
        return TreeDistribution(
            {
                key: heads[name].forward(
                    features,
                    None if mask is None else joined_mask(obs, mask),
                    *((obs[described[key].leaf],) if key in described else ()),
                )
                for key, mask, name in self._leaves
            }
        )


def _part(state: TensorTree, owner: str) -> TensorTree:
    """Return one memory's leaves of a policy's state, by their own names."""
    return subtree(state, f"{owner}/")


def feature_count(encoder: nn.Module) -> int:
    """Return the width of an encoder's features.

    Raises:
        ConfigError: the module has no `out_features`.
    """
    count = getattr(encoder, "out_features", None)
    # Sizes from gymnasium are numpy integers.
    if not isinstance(count, Integral) or int(count) < 1:
        raise ConfigError(
            f"the encoder {type(encoder).__name__} has no out_features",
            where="model",
            hint="Set `self.out_features` to the width of the features [B, out_features] its forward returns.",
        )
    return int(count)
