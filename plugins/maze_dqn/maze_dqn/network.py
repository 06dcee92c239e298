"""The value network: a policy whose logits are the values of the choices."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING, Any, cast

import torch
from gymnasium import spaces
from maze_models.scored_choices import scored
from maze_offpolicy import JointActions
from torch import Tensor, nn
from torch.nn import functional as F

from maze_core import ConfigError, Dense, Policy, TreeDistribution, check_room, feature_count, flatten_space
from maze_core.models.distributions import Bernoulli, Categorical, MultiCategorical, draw, pad_choices
from maze_core.models.distributions.chosen import foreign_name
from maze_core.models.plain import PlainLogits

if TYPE_CHECKING:
    from collections.abc import Sequence

    from maze_core import Sequences, TensorTree
    from maze_core.models.distributions import Distribution, Noise
    from maze_dqn.returns import Returns

_NEVER = -1e9


class NoisyDense(nn.Module):
    """A linear layer with factorised noise on its parameters, whose scale is learnt (Fortunato et al., 1706.10295).

    Without noise until `resample`, and again after `quiet`.
    """

    noise_in: Tensor
    noise_out: Tensor

    def __init__(self, in_features: int, out_features: int, std: float) -> None:
        check_room(2 * in_features * out_features)
        super().__init__()
        bound, scale = 1 / math.sqrt(in_features), std / math.sqrt(in_features)
        self.weight = nn.Parameter(torch.empty(out_features, in_features).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(out_features).uniform_(-bound, bound))
        self.weight_std = nn.Parameter(torch.full((out_features, in_features), scale))
        self.bias_std = nn.Parameter(torch.full((out_features,), scale))
        self.register_buffer("noise_in", torch.zeros(in_features), persistent=False)
        self.register_buffer("noise_out", torch.zeros(out_features), persistent=False)

    def forward(self, features: Tensor) -> Tensor:
        """[B, in_features] → [B, out_features]."""
        weight = torch.addcmul(self.weight, self.weight_std, torch.outer(self.noise_out, self.noise_in))
        return F.linear(features, weight, torch.addcmul(self.bias, self.bias_std, self.noise_out))

    def resample(self, generator: torch.Generator) -> None:
        """Draw new noise: the sign times the root of standard normal numbers, for each input and each output."""
        for noise in (self.noise_in, self.noise_out):
            drawn = torch.randn(noise.shape, generator=generator, device=noise.device)
            noise.copy_(drawn.sign() * drawn.abs().sqrt())

    def quiet(self) -> None:
        """Take the noise away."""
        self.noise_in.zero_()
        self.noise_out.zero_()


def stream(sizes: Sequence[int], noisy_std: float | None) -> nn.Sequential:
    """Return linear layers with ReLU between them; `noisy_std` None: without noise."""
    layers: list[nn.Module] = []
    for pair in pairwise(sizes):
        layers += [Dense(*pair) if noisy_std is None else NoisyDense(*pair, noisy_std), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


class ValueNetwork(Policy):
    """Observations → A atoms for each of the C choices of M members; their means are the logits of the policy.

    Each Discrete leaf is a member, as is each number of a MultiDiscrete and each bit of a MultiBinary: it has a branch
    of values of its own after layers that all share (Tavakoli et al., arXiv 1711.08946). The policy takes the best
    choice of each member among those that the masks allow.

    The choices of a Discrete leaf that observations describe (`model.choice_features`) are scored by their features:
    each atom is the product of an embedding of the state and one of the choice.

    Args:
        policy: gives its encoder, its normaliser and what builds its memory.
        returns: what the atoms mean.
        hidden: units of the layers between encoder and values.
        dueling: add the value of the observation, from a stream of its own, to the choices' advantages over their
            member's mean (Wang et al., arXiv 1511.06581, eq. 9).
        noisy_std: initial scale of the noise on the parameters of these layers; None: no noise.
        temperature: divisor of the values where they are logits.
    """

    logits_are_values = True
    centre: Tensor
    slots: Tensor

    def __init__(
        self,
        policy: Policy,
        returns: Returns,
        hidden: Sequence[int] = (),
        *,
        dueling: bool = False,
        noisy_std: float | None = None,
        temperature: float = 1.0,
    ) -> None:
        super().__init__(
            policy.observation_space,
            policy.action_space,
            policy.encoder,
            has_critic=False,
            normalizer=policy.normalizer,
            make_memory=policy.make_memory,
        )
        self.returns, self.temperature, self.is_noisy = returns, temperature, noisy_std is not None
        self.actions = actions = JointActions(policy.observation_space, policy.action_space)
        sizes = [size for members in actions.choices.values() for size in members]
        self.members, self._width = len(sizes), max(sizes)
        slots = torch.cat([member * self._width + torch.arange(size) for member, size in enumerate(sizes)])
        self.register_buffer("slots", slots, persistent=False)
        # Values minus the mean of their member's.
        member = torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes))
        same = (member.unsqueeze(0) == member.unsqueeze(1)).float()
        centre = torch.eye(len(member)) - same / same.sum(-1, keepdim=True)
        self.register_buffer("centre", centre if dueling else torch.empty(0), persistent=False)
        features = feature_count(self.encoder if self.memory is None else self.memory)
        self.described = policy.described
        self._numbered = sum(sum(sizes) for key, sizes in actions.choices.items() if key not in self.described)
        heads = {}
        if self._numbered:
            heads["choices"] = stream([features, *hidden, self._numbered * returns.atoms], noisy_std)
        if dueling:
            heads["observation"] = stream([features, *hidden, returns.atoms], noisy_std)
        embeddings = {}
        for key in self.described:
            embedding: Any = policy.heads[f"{key}_head"].embedding
            embeddings[f"{key}_choices"] = embedding
            heads[f"{key}_query"] = stream([features, *hidden, embedding.out_features * returns.atoms], noisy_std)
        self.heads, self.embeddings = nn.ModuleDict(heads), nn.ModuleDict(embeddings)
        self._spaces = flatten_space(policy.action_space, "action")

    @property
    def action_heads(self) -> list[tuple[str, Sequence[str] | None, Any]]:
        """Return none: the heads are those of the values."""
        return []

    def plain_heads(self) -> list[tuple[str, Any]] | None:
        """Return the values of a single choice as logits, where they are the outputs of one layer; None: elsewhere."""
        single = all(isinstance(space, spaces.Discrete) for space in self._spaces.values()) and self.members == 1
        if not single or self.returns.atoms > 1 or self.remembers or self.actions.masks or len(self.heads) > 1:
            return None
        layers = list(cast("nn.Sequential", self.heads["choices"])) if "choices" in self.heads else []
        if len(layers) != 1 or not isinstance(layers[0], Dense):
            return None
        return [(key, PlainLogits(layers[0], 1 / self.temperature)) for key in self._spaces]

    @property
    def noise(self) -> dict[str, Noise]:
        """What a row of noise holds, by action leaf."""
        found: dict[str, Noise] = {}
        for key, sizes in self.actions.choices.items():
            if isinstance(self._spaces[key], spaces.MultiBinary):
                found[key] = {"logistic": (len(sizes),)}
            elif isinstance(self._spaces[key], spaces.MultiDiscrete):
                found[key] = {"gumbel": (len(sizes), self._width)}
            else:
                found[key] = {"gumbel": tuple(sizes)}
        return found

    def atoms(self, obs: TensorTree, sequences: Sequences | None = None) -> Tensor:
        """Return the atoms of every choice for B observations, [B, C, A]; `sequences` for a network that remembers."""
        features = self.encoder(self.normalized(obs))
        return self._atoms(obs, self._unrolled("memory", features, sequences) if self.remembers else features)

    def _atoms(self, obs: TensorTree, features: Tensor) -> Tensor:
        atoms = self._by_feature(obs, features) if self.described else self._by_number(features)
        if len(self.centre):
            atoms = self.centre @ atoms + self.heads["observation"](features).unsqueeze(1)
        return atoms

    def _by_number(self, features: Tensor) -> Tensor:
        """Return the atoms of the choices that have an output each, [B, n, A]."""
        atoms: Tensor = self.heads["choices"](features)
        return atoms.reshape(atoms.shape[0], -1, self.returns.atoms)  # `len` would fix the rows in exports

    def _by_feature(self, obs: TensorTree, features: Tensor) -> Tensor:
        """Return the atoms of all choices, [B, C, A], where observations describe some."""
        numbered = self._by_number(features) if self._numbered else None
        parts, start = [], 0
        for key, sizes in self.actions.choices.items():
            if key in self.described:
                choices: Tensor = self.embeddings[f"{key}_choices"](obs[self.described[key].leaf])
                queries: Tensor = self.heads[f"{key}_query"](features)
                queries = queries.reshape(queries.shape[0], self.returns.atoms, choices.shape[-1])
                parts.append(scored(queries, choices))
            elif numbered is not None:
                parts.append(numbered[:, start : start + sum(sizes)])
                start += sum(sizes)
        return torch.cat(parts, 1)

    def best(self, atoms: Tensor, obs: TensorTree) -> Tensor:
        """Return each member's best allowed choice, counted among all C, [B, M], by the means of atoms [B, C, A]."""
        return self._by_member(self.returns.mean(atoms), obs).argmax(-1) + self.actions.starts

    def _by_member(self, values: Tensor, obs: TensorTree) -> Tensor:
        """Return values [B, C] by member, [B, M, W], and -1e9 where the masks forbid a choice or there is none."""
        allowed = self.actions.allowed(obs)
        if allowed is not None:
            values = values.masked_fill(~allowed, _NEVER)
        return pad_choices(values, self.slots, (self.members, self._width), fill=_NEVER)

    @staticmethod
    def at(atoms: Tensor, choices: Tensor) -> Tensor:
        """Return the atoms [B, M, A] of choices [B, M], out of those of all, [B, C, A]."""
        return atoms.gather(1, choices.unsqueeze(-1).expand(-1, -1, atoms.shape[-1]))

    def _distribution(self, obs: TensorTree, features: Tensor) -> TreeDistribution:
        """Return distributions whose logits are the values of the choices; those of a bit are their difference."""
        values = self._by_member(self.returns.mean(self._atoms(obs, features)) / self.temperature, obs)
        parts: dict[str, Distribution] = {}
        member = 0
        for key, sizes in self.actions.choices.items():
            leaf = values[:, member : member + len(sizes)]
            if isinstance(self._spaces[key], spaces.Discrete):
                parts[key] = Categorical(leaf[:, 0, : sizes[0]])
            elif isinstance(self._spaces[key], spaces.MultiDiscrete):
                parts[key] = MultiCategorical(leaf)
            else:
                parts[key] = Bernoulli(leaf[..., 1] - leaf[..., 0])
            member += len(sizes)
        return TreeDistribution(parts)

    def value(self, obs: TensorTree, sequences: Sequences | None = None) -> Tensor:
        """Return the value of the best action, the mean of its members' values, [B]."""
        atoms = self.atoms(obs, sequences)
        return self.returns.mean(self.at(atoms, self.best(atoms, obs))).mean(-1)

    def draw_noise(self, shape: tuple[int, ...], generator: torch.Generator) -> TensorTree:
        """Return noise for `sample`, leaves [*shape, …] on the generator's device."""
        return {key: draw(each, shape, generator) for key, each in self.noise.items()}

    def resample(self, generator: torch.Generator) -> None:
        """Draw new noise for the parameters."""
        for layer in self._noisy():
            layer.resample(generator)

    def quiet(self) -> None:
        """Take the noise of the parameters away."""
        for layer in self._noisy():
            layer.quiet()

    def _noisy(self) -> list[NoisyDense]:
        return [layer for layer in self.heads.modules() if isinstance(layer, NoisyDense)] if self.is_noisy else []


def value_network(policy: Any, returns: Returns, config: Any, **options: Any) -> ValueNetwork:
    """Return a value network around the encoder of the policy that a model built; `config`: the model's.

    Raises:
        ConfigError: the policy has no encoder, or a distribution or pointers that would not be used.
    """
    if not isinstance(policy, Policy):
        raise ConfigError(
            f"values are learnt behind an encoder, and the policy {type(policy).__name__} has none",
            "model",
            "Pass only the encoder to Maze; the layers after it are those of the algorithm.",
        )
    if (name := foreign_name(config)) is not None:
        raise ConfigError(
            f"the values of choices decide how this algorithm acts, so the distribution {name} would never be used",
            "model.distribution",
            "Next: leave it out, or use an algorithm with a policy, such as ppo.",
        )
    if getattr(config, "pointers", None):
        raise ConfigError(
            "values replace the heads of the policy, so its pointers would never be used",
            "model.pointers",
            "Next: leave them out, and name the leaf whose rows describe the choices in model.choice_features.",
        )
    return ValueNetwork(policy, returns, temperature=getattr(config, "temperature", 1.0), **options)
