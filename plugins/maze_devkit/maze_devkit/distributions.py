"""The checks of distributions of policies."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from gymnasium import Space, spaces
from torch import Tensor, nn

from maze_core.envs.codecs import ActionCodec
from maze_core.models.distributions import Distribution
from maze_devkit.findings import Check, Failed, NotApplicable
from maze_devkit.head_cases import DRAWS, ROWS, Case, cases, features
from maze_devkit.process import left_alone
from maze_devkit.subject import Subject

_WITHIN = 6.0
# Standard errors by which an estimate may differ: chance alone exceeds them once in half a billion times.


def _takes(subject: Subject) -> None:
    family = subject.build()
    if not family.spaces:
        raise Failed(f"{type(family).__name__}.spaces is empty, so no action gets this distribution")
    kinds = (spaces.Box, spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary)
    if wrong := [kind for kind in family.spaces if kind not in kinds]:
        raise Failed(f"{wrong[0]} in `spaces` is none of {', '.join(kind.__name__ for kind in kinds)}")
    for case in cases(subject):
        if not isinstance(case.rows, family.gives):
            raise Failed(f"{case.title}: it gives {type(case.rows).__name__}, not {family.gives.__name__} as it says")


def _shapes(subject: Subject) -> None:
    for case in cases(subject):
        rows, space = case.rows, case.space
        with torch.no_grad():
            sample, mode = rows.sample(case.noise(ROWS)), rows.mode()
            for name, numbers in (("log_prob", rows.log_prob(sample)), ("entropy", rows.entropy())):
                if tuple(numbers.shape) != (ROWS,) or numbers.dtype != torch.float32 or not numbers.isfinite().all():
                    what = f"{numbers.dtype} {tuple(numbers.shape)} {numbers.tolist()!r:.80}"
                    raise Failed(f"{case.title}: {name} of {ROWS} rows is {what}, not finite float32 [{ROWS}]")
            if (sample.shape, sample.dtype) != (mode.shape, mode.dtype):
                both = " and ".join(f"{each.dtype} {tuple(each.shape)}" for each in (sample, mode))
                raise Failed(f"{case.title}: sample and mode differ in form: {both}")
            if not torch.equal(sample, rows.sample(case.noise(ROWS))):
                raise Failed(f"{case.title}: the same noise gives another sample; noise must be all that decides it")
            single = case.head.forward(features()[2:3], None)
            if not torch.allclose(single.sample(case.noise(ROWS)[2:3]).double(), sample[2:3].double(), atol=1e-4):
                raise Failed(f"{case.title}: a row alone has another sample than in a batch")
            for what, drawn in (("a sample", sample), ("the mode", mode)):
                _check_actions(f"{case.title}: {what}", rows, space, drawn)
            back = rows.log_prob(rows.from_env_action(rows.env_action(sample)))
            if not torch.allclose(back, rows.log_prob(sample), rtol=1e-3, atol=1e-2):
                raise Failed(f"{case.title}: from_env_action(env_action(sample)) has another log-probability")


def _check_actions(title: str, rows: Distribution, space: Space[Any], drawn: Tensor) -> None:
    action = rows.env_action(drawn).numpy()
    if getattr(rows, "bounded", False) and isinstance(space, spaces.Box):
        slack = 1e-5 * (space.high - space.low)
        if not ((action >= space.low - slack) & (action <= space.high + slack)).all():
            raise Failed(f"{title} leaves the bounds although the distribution is `bounded`")
    for each in ActionCodec(space).rows({"action": action}):
        if not space.contains(each):
            raise Failed(f"{title}, {each!r:.80}, is not in {space}")


def _sampling(subject: Subject) -> None:
    for case in cases(subject):
        _check_sampling(case)


def _check_sampling(case: Case) -> None:
    """Compare the entropy, and integrals of the density, with what many samples say."""
    for row in (0, ROWS - 1):
        many = case.many(row)
        with torch.no_grad():
            sample = many.sample(case.noise(DRAWS, row + 1))
            surprise = -many.log_prob(sample).double()
            entropy = float(case.rows.entropy()[row])
        _near(f"{case.title}: the entropy is {entropy:.4f}", "-log_prob of samples", surprise, entropy)
        if isinstance(case.space, spaces.Box):
            _check_density(case, many, sample, surprise)
        else:
            _check_probabilities(case, many, sample)


def _near(title: str, what: str, values: Tensor, wanted: float) -> None:
    error = _WITHIN * float(values.std()) / math.sqrt(len(values)) + 2e-3 * max(1.0, abs(wanted))
    if not abs(float(values.mean()) - wanted) <= error:
        raise Failed(f"{title}, but the mean of {what} is {float(values.mean()):.4f}")


def _check_density(case: Case, many: Distribution, sample: Tensor, surprise: Tensor) -> None:
    """Integrate the density of one-dimensional actions: over cells of a grid it must be the share of the samples."""
    if case.title != "one number":
        return
    actions = many.env_action(sample).double().reshape(-1)
    low, high = float(actions.min()), float(actions.max())
    edges = torch.linspace(low, high, 4001, dtype=torch.float64)
    middles = ((edges[1:] + edges[:-1]) / 2).float().reshape(-1, 1)
    grid = _grid(case, many, middles)
    mass = (grid.double().exp() * (edges[1] - edges[0])).reshape(8, -1).sum(1)
    share = torch.histc(actions, 8, low, high) / len(actions)
    slack = _WITHIN * (mass * (1 - mass).clamp(min=0) / len(actions)).clamp(min=0).sqrt() + 5e-3
    if not ((share - mass).abs() <= slack).all():
        raise Failed(
            f"{case.title}: eight equal parts of [{low:.2f}, {high:.2f}] have the probabilities {_shown(mass)} by "
            f"log_prob, but {_shown(share)} of the samples"
        )


def _grid(case: Case, many: Distribution, actions: Tensor) -> Tensor:
    """Return the log-densities of actions [n, 1] under one distribution."""
    with torch.no_grad():
        rows = torch.cat([actions, actions[:1].expand(DRAWS - len(actions), -1)])
        return many.log_prob(many.from_env_action(rows))[: len(actions)]


def _check_probabilities(case: Case, many: Distribution, sample: Tensor) -> None:
    """Compare how often each action is drawn with its probability; all together have probability 1."""
    distinct, counts = torch.unique(sample.reshape(len(sample), -1), dim=0, return_counts=True)
    with torch.no_grad():
        rows = sample.clone()
        rows[: len(distinct)] = distinct.reshape(len(distinct), *sample.shape[1:]).to(sample.dtype)
        chance = many.log_prob(rows)[: len(distinct)].double().exp()
    slack = _WITHIN * (chance * (1 - chance).clamp(min=0) / len(sample)).sqrt() + 1e-4
    if not ((counts / len(sample) - chance).abs() <= slack).all() or float(chance.sum()) > 1 + 1e-4:
        shown = _shown(counts / len(sample))
        raise Failed(f"{case.title}: log_prob gives actions the probabilities {_shown(chance)}, but {shown} are drawn")


def _shown(values: Tensor) -> str:
    return ", ".join(f"{value:.3f}" for value in values.tolist()[:8])


def _kl(subject: Subject) -> None:
    if subject.build().gives.kl is Distribution.kl:
        raise NotApplicable("it has no KL divergence")
    for case in cases(subject):
        first, second = case.many(0), case.many(1)
        with torch.no_grad():
            sample = first.sample(case.noise(DRAWS))
            gap = (first.log_prob(sample) - second.log_prob(sample)).double()
            found, own = first.kl(second), first.kl(first)
        if not bool((found >= -1e-4).all()) or float(own.abs().max()) > 1e-3:
            raise Failed(f"{case.title}: KL is {float(found[0]):.4f}, and {float(own[0]):.4f} with itself")
        _near(f"{case.title}: KL is {float(found[0]):.4f}", "the samples' log-ratios", gap, float(found[0]))


def _log_prob(sample: Tensor, rows: Distribution) -> Tensor:
    return rows.log_prob(sample)


def _sample(noise: Tensor, rows: Distribution) -> Tensor:
    return rows.sample(noise)


def _gradients(subject: Subject) -> None:
    for case in cases(subject):
        noise = case.noise(ROWS)
        with torch.no_grad():
            sample = case.rows.sample(noise)
        asked: dict[str, Callable[[Any], Tensor]] = {
            "log_prob": partial(_log_prob, sample),
            "entropy": lambda rows: rows.entropy(),
        }
        if getattr(case.rows, "reparametrised", False):
            asked["sample"], asked["mode"] = partial(_sample, noise), lambda rows: rows.mode()
            _check_slopes(case)
        for scale in (1.0, 100.0):  # of features, as those of a network that has not learnt to keep them small
            reached: set[str] = set()
            for name, ask in asked.items():
                case.head.zero_grad()
                total = ask(case.head.forward(scale * features(), None)).sum()
                if not total.requires_grad:
                    raise Failed(f"{case.title}: {name} has no gradient")
                torch.autograd.backward(total)
                found = {key: p.grad for key, p in case.head.named_parameters() if p.grad is not None}
                if wrong := [key for key, gradient in found.items() if not gradient.isfinite().all()]:
                    raise Failed(f"{case.title}: {name} has a gradient for {wrong[0]} that is not finite, with "
                                 f"features around {3 * scale:.0f}")  # fmt: skip
                reached |= found.keys()
            if idle := [key for key, _ in case.head.named_parameters() if key not in reached]:
                raise Failed(f"{case.title}: nothing gives a gradient to {idle[0]}")


def _check_slopes(case: Case) -> None:
    """Compare the gradients of a reparametrised sample and of the mode with small changes of the parameters."""
    head = copy.deepcopy(case.head).double()
    generator = torch.Generator().manual_seed(3)
    steps = {
        name: 1e-5 * torch.randn(p.shape, generator=generator, dtype=p.dtype) for name, p in head.named_parameters()
    }
    seen, noise = features().double(), case.noise(ROWS).double()

    def acted(sign: float) -> dict[str, Tensor]:
        moved = {name: p + sign * steps[name] for name, p in head.named_parameters()}
        rows = torch.func.functional_call(head, moved, (seen, None))
        return {"sample": rows.env_action(rows.sample(noise)), "mode": rows.env_action(rows.mode())}

    with torch.no_grad():
        after, before = acted(1.0), acted(-1.0)
    for name in after:
        action = acted(0.0)[name]
        weights = torch.randn(action.shape, generator=generator, dtype=action.dtype)
        gradients = torch.autograd.grad((weights * action).sum(), list(head.parameters()), allow_unused=True)
        pairs = zip(gradients, steps.values(), strict=True)
        slope = sum(float((gradient * step).sum()) for gradient, step in pairs if gradient is not None)
        wanted = float((weights * (after[name] - before[name])).sum()) / 2
        if not math.isclose(slope, wanted, rel_tol=1e-3, abs_tol=1e-9):
            raise Failed(f"{case.title}: the gradient of the {name} says {slope:.3g} where it changes by {wanted:.3g}")


def _masks(subject: Subject) -> None:
    for case in cases(subject, masked=True):
        for row, mask in enumerate(case.mask if case.mask is not None else ()):
            many = case.many(row)
            with torch.no_grad():
                drawn = torch.cat([many.sample(case.noise(DRAWS)), many.mode()]).reshape(2 * DRAWS, -1)
                finite = bool(many.entropy().isfinite().all())
            for member, choice in _forbidden(case.space, mask):
                if bool((drawn[:, member] == choice).any()):
                    raise Failed(f"{case.title}: it takes a choice that the mask forbids")
            if not finite:
                raise Failed(f"{case.title}: with a mask the entropy is not finite")


def _forbidden(space: Space[Any], mask: Tensor) -> list[tuple[int, int]]:
    """Return what a mask [n] forbids: members of the action, and their choices."""
    if isinstance(space, spaces.MultiBinary):  # a masked bit stays 0
        return [(member, 1) for member in range(len(mask)) if not mask[member]]
    sizes = space.nvec if isinstance(space, spaces.MultiDiscrete) else [len(mask)]
    places = [(member, choice) for member, size in enumerate(sizes) for choice in range(int(size))]
    return [place for place, allowed in zip(places, mask, strict=True) if not allowed]


class _Acting(nn.Module):
    """Features and noise → a sample and the mode, in environment units."""

    def __init__(self, head: Any) -> None:
        super().__init__()
        self.head = head

    def forward(self, features: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        rows = self.head.forward(features, None)
        return rows.env_action(rows.sample(noise)), rows.env_action(rows.mode())


def _exports(subject: Subject) -> None:
    for case in cases(subject):
        batch = torch.export.Dim("batch")
        try:
            exported = torch.export.export(
                _Acting(case.head), (features(), case.noise(ROWS)), dynamic_shapes=({0: batch}, {0: batch})
            ).module()
        except Exception as error:  # noqa: BLE001 — whatever torch and the distribution raise
            reason = str(error).strip().partition("\n")[0]
            raise Failed(f"{case.title}: torch cannot export it: {reason:.200}") from None
        seen, noise = features()[:3], case.noise(3)
        with torch.no_grad():
            for got, wanted in zip(exported(seen, noise), _Acting(case.head)(seen, noise), strict=True):
                if not torch.allclose(got.double(), wanted.double(), rtol=1e-4, atol=1e-4):
                    raise Failed(f"{case.title}: exported, it acts differently with a batch of another size")
        return  # one space says it all, and each takes a second


def _global_state(subject: Subject) -> None:
    with left_alone("sampling"):
        for case in cases(subject):
            case.rows.entropy()
            case.rows.log_prob(case.rows.sample(case.noise(ROWS)))


CHECKS = (
    Check(
        "takes",
        "It names the kinds of spaces that it is for, and gives distributions of the class that it names.",
        "Other actions have their default distribution, and algorithms ask the class what it can do.",
        "Set `spaces` and `gives`; raise ConfigError in `size` for a space that does not fit.",
        _takes,
    ),
    Check(
        "shapes",
        "Samples depend on noise and parameters alone, row by row; actions are in the space; numbers are float32 [B].",
        "Otherwise a run cannot be repeated, and workers act differently from one process.",
        "Draw no random numbers in `sample`; sum log-densities over all dimensions but the first.",
        _shapes,
    ),
    Check(
        "sampling",
        "`log_prob` is the log-density, in environment units, of what `sample` draws, and `entropy` is its entropy.",
        "With another density policy gradients are biased, and the learning goes wrong without an error.",
        "Subtract `scale.log_volume` from a density of canonical actions and add it to the entropy; include Jacobians.",
        _sampling,
    ),
    Check(
        "kl",
        "The KL divergence, where it has one, is that of the densities, never below 0, and 0 with itself.",
        "Algorithms of RLlib and others bound updates by it.",
        "Compute KL(self ‖ other), or leave `kl` out.",
        _kl,
    ),
    Check(
        "gradients",
        "Log-probability, entropy, and a reparametrised sample and mode have finite gradients, for large features too.",
        "One gradient that is not finite ends a run.",
        "Clamp logarithms of scales; avoid log(0) and differences of large numbers.",
        _gradients,
    ),
    Check(
        "masks",
        "Choices that a mask forbids are neither drawn nor the mode, and the entropy stays finite.",
        "Environments refuse forbidden actions.",
        "Give them the logit -1e9 rather than minus infinity, before a softmax.",
        _masks,
    ),
    Check(
        "exports",
        "torch exports samples and mode for batches of any size.",
        "`maze export` writes policies for other programs.",
        "Do not branch on values, nor use `len()` of a tensor; `reshape(-1, …)` keeps the batch.",
        _exports,
    ),
    Check(
        "global_state",
        "Sampling leaves random states, threads, signal handlers, environment variables and the current folder alone.",
        "Otherwise two runs in one process affect each other.",
        "Use the noise that `sample` is given.",
        _global_state,
        alone=True,
    ),
)
"""The checks of distributions."""
