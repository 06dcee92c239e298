"""Many copies of a simulator, stepped and reset by one compiled call."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from maze_core import ConfigError
from maze_core.plugins.discovery import describe
from maze_jax.acting import acting
from maze_jax.spaces import leaves

if TYPE_CHECKING:
    from jax import Array
    from maze_onpolicy.collect.plain_network import Form

    from maze_jax.simulator import Simulator

_SEVERAL, _SHARE = 64, 8
"""From so many environments on, resets of up to one in eight cost less than resets of all."""
_OUTSIDE = ("pure_callback", "io_callback")
"""Operations that call Python, which JAX does not see into."""


class Running(NamedTuple):
    """The episodes of N environments: all that decides what comes next; leaves [N, …]."""

    state: Any
    key: Array
    """uint32 [N, 2]: with the number of a step, the key of its random numbers; the same throughout an episode."""
    observation: Any
    length: Array
    """int32 [N], steps taken in the episode."""
    episode: Array
    """int32 [N], its number."""


class Outcome(NamedTuple):
    """The result of one step of N environments."""

    reward: Array
    """float32 [N]"""
    terminated: Array
    """bool [N]"""
    truncated: Array
    """bool [N]; never together with `terminated`."""
    last: Any
    """Observations [N, …] as the step left them; where an episode ended, its last one."""


class Steps(NamedTuple):
    """The results of T steps of N environments; leaves [T, N, …]."""

    observation: Any
    """What the next actions are chosen from: of the next episode where one has ended."""
    samples: Any
    """What the policy has drawn, by action leaf."""
    outcome: Outcome


class Stepping:
    """The compiled functions of N copies of a simulator.

    Args:
        simulator: one environment.
        num_envs: N.
        limit: steps after which an episode is truncated; None: the simulator alone decides.

    Raises:
        ConfigError: its functions cannot be compiled, or are not pure, or the shapes of what they return change.
    """

    def __init__(self, simulator: Simulator, num_envs: int, limit: int | None) -> None:
        import jax

        self._jax, self.simulator, self.num_envs, self._limit = jax, simulator, num_envs, limit
        self._rolled: dict[Form, Callable[..., tuple[Running, Steps]]] = {}
        self._checked()

    @cached_property
    def begin(self) -> Callable[..., Running]:
        """The function from seeds uint32 [N] and episode numbers int32 [N] to the episodes that begin there."""
        return self._jax.jit(self._begun)  # type: ignore[no-any-return]

    @cached_property
    def step(self) -> Callable[..., tuple[Running, Outcome]]:
        """The function from episodes, actions [N, …], seeds uint32 [N, K] and numbers int32 [N] to the next step.

        Seed k of an environment is that of the episode with its number plus k.
        """
        return self._jax.jit(self._stepped)  # type: ignore[no-any-return]

    def rolled(self, form: Form) -> Callable[..., tuple[Running, Steps]]:
        """Return the function from arrays, episodes, noise [T, N, …], seeds and numbers, as for `step`, to T steps.

        A policy of this form with these arrays acts: see `maze_jax.acting`.
        """
        if form not in self._rolled:
            act = acting(form, self.simulator.observation_space, self.simulator.action_space)

            def rolled(arrays: Any, running: Running, noise: Any, seeds: Any, numbers: Any) -> tuple[Running, Steps]:
                def one(running: Running, noise: Any) -> tuple[Running, Steps]:
                    samples, actions = act(arrays, running.observation, noise)
                    after, outcome = self._stepped(running, actions, seeds, numbers)
                    return after, Steps(after.observation, samples, outcome)

                return self._jax.lax.scan(one, running, noise)  # type: ignore[no-any-return]

            self._rolled[form] = self._jax.jit(rolled)
        return self._rolled[form]

    @cached_property
    def form(self) -> Running:
        """The shapes and types of `Running`."""
        rows = self._jax.ShapeDtypeStruct((self.num_envs,), "uint32")
        numbers = self._jax.ShapeDtypeStruct((self.num_envs,), "int32")
        return self._jax.eval_shape(self._begun, rows, numbers)  # type: ignore[no-any-return]

    def _begun(self, seeds: Any, episodes: Any) -> Running:
        jnp = self._jax.numpy
        state, key, observation = self._jax.vmap(self._first)(seeds)
        return Running(state, key, observation, jnp.zeros(seeds.shape, jnp.int32), episodes)

    def _first(self, seed: Any) -> tuple[Any, Any, Any]:
        key, own = self._jax.random.split(self._jax.random.PRNGKey(seed))
        state, observation = self.simulator.reset(own)
        return _strong(self._jax, state), key, self._fitting(observation)

    def _stepped(self, running: Running, actions: Any, seeds: Any, numbers: Any) -> tuple[Running, Outcome]:
        jax, jnp = self._jax, self._jax.numpy
        state, observation, reward, terminated, truncated = jax.vmap(self._one)(
            running.state, running.key, running.length, actions
        )
        length = running.length + 1
        if self._limit is not None:
            truncated |= length >= self._limit
        truncated &= ~terminated
        over = terminated | truncated
        episode = running.episode + over
        after = Running(state, running.key, observation, length, episode)
        following = seeds[jnp.arange(len(over)), jnp.clip(episode - numbers, 0, seeds.shape[1] - 1)]
        return self._renewed(after, over, following), Outcome(reward, terminated, truncated, observation)

    def _one(self, state: Any, key: Any, length: Any, action: Any) -> tuple[Any, ...]:
        jax, jnp = self._jax, self._jax.numpy
        # Not carried on from step to step, so that what draws no random numbers does not pay for them.
        own = jax.random.fold_in(key, length)
        after, observation, reward, terminated, truncated = self.simulator.step(own, state, action)
        flags = (jnp.asarray(flag).astype(bool) for flag in (terminated, truncated))
        number = jnp.asarray(reward).astype(jnp.float32)
        return _strong(jax, after), self._fitting(observation), number, *flags

    def _renewed(self, running: Running, over: Any, seeds: Any) -> Running:
        """Return the episodes, of which those that are over begin anew with these seeds [N]."""
        jax, jnp = self._jax, self._jax.numpy
        count, few = over.sum(), len(over) // _SHARE if len(over) >= _SEVERAL else 0

        def all_of_them(running: Running) -> Running:
            fresh = self._begun(seeds, running.episode)
            return jax.tree.map(lambda new, old: jnp.where(_rows(over, old), new, old), fresh, running)  # type: ignore[no-any-return]

        def some(running: Running) -> Running:
            rows = jnp.nonzero(over, size=few, fill_value=len(over))[0]
            fresh = self._begun(seeds[rows], running.episode[rows])
            return jax.tree.map(lambda new, old: old.at[rows].set(new, mode="drop"), fresh, running)  # type: ignore[no-any-return]

        if not few:
            return jax.lax.cond(count > 0, all_of_them, lambda running: running, running)  # type: ignore[no-any-return]
        which = jnp.where(count == 0, 0, jnp.where(count <= few, 1, 2))
        return jax.lax.switch(which, [lambda running: running, some, all_of_them], running)  # type: ignore[no-any-return]

    def _fitting(self, observation: Any) -> Any:
        """Return an observation with the types that its space declares; booleans are numbers there."""
        jnp, space = self._jax.numpy, self.simulator.observation_space
        for path, leaf, value in leaves(space, observation):
            if value is None or tuple(jnp.shape(value)) != tuple(leaf.shape or ()):
                found = "nothing" if value is None else f"shape {tuple(jnp.shape(value))}"
                raise ConfigError(
                    f"the environment's observation {path or ''} has {found}, where {leaf} is declared", "env"
                )
        return _cast(jnp, space, observation)

    def _checked(self) -> None:
        """Look at the functions without computing anything."""
        jax, jnp = self._jax, self._jax.numpy
        try:
            before = self.form
            state, key = (jax.tree.map(lambda leaf: leaf.update(shape=leaf.shape[1:]), each) for each in before[:2])
            action = jax.eval_shape(lambda: _zeros(jnp, self.simulator.action_space))
            traced = jax.make_jaxpr(self._one, return_shape=True)
            program, (after, _, reward, terminated, truncated) = traced(state, key, 0, action)
        except ConfigError:
            raise
        except Exception as error:
            raise ConfigError(
                f"JAX cannot compile the environment: {describe(error)}",
                "env",
                "Next: let its functions use arrays of JAX alone, and jax.lax.cond or jnp.where for choices.",
            ) from error
        _check_pure(program)
        _check_same(jax, state, after)
        for name, value in (("reward", reward), ("terminated", terminated), ("truncated", truncated)):
            if value.shape != ():
                several = " Several agents act in it, or it has several objectives." if name == "reward" else ""
                raise ConfigError(f"the environment's {name} has shape {value.shape} instead of ().{several}", "env")


def _check_pure(program: Any) -> None:
    """Raise ConfigError for a program that reaches out of JAX."""
    found = sorted({name for name in _operations(program.jaxpr) if name in _OUTSIDE})
    if found:
        raise ConfigError(
            f"the environment is not pure: it calls Python ({', '.join(found)}), whose state no checkpoint has",
            "env",
            "Next: write that part with JAX, or make it an environment of gymnasium.",
        )


def _operations(jaxpr: Any) -> Any:
    """Yield the names of all operations of a program, also of those inside."""
    for equation in jaxpr.eqns:
        yield equation.primitive.name
        for value in equation.params.values():
            for inner in value if isinstance(value, list | tuple) else (value,):
                inner = getattr(inner, "jaxpr", inner)
                if hasattr(inner, "eqns"):
                    yield from _operations(inner)


def _check_same(jax: Any, before: Any, after: Any) -> None:
    """Raise ConfigError where a step changes the structure of a state, or the shape or type of an array in it."""
    one, other = jax.tree.structure(before), jax.tree.structure(after)
    if one != other:
        raise ConfigError("a step changes the structure of the environment's state", "env", f"{one!s:.300}")
    for path, was in jax.tree_util.tree_leaves_with_path(before):
        now = dict(jax.tree_util.tree_leaves_with_path(after))[path]
        if (was.shape, was.dtype) != (now.shape, now.dtype):
            raise ConfigError(
                f"a step changes the environment's state at {jax.tree_util.keystr(path)} from {was.dtype} of shape "
                f"{was.shape} to {now.dtype} of shape {now.shape}",
                "env",
                "Next: give it the same shape and type in the reset.",
            )


def _strong(jax: Any, tree: Any) -> Any:
    """Return a tree whose arrays have types that do not give way, as those have that come from a checkpoint."""
    extended = jax.dtypes.extended

    def fixed(leaf: Any) -> Any:
        array = jax.numpy.asarray(leaf)
        return (
            array if jax.numpy.issubdtype(array.dtype, extended) else jax.lax.convert_element_type(array, array.dtype)
        )

    return jax.tree.map(fixed, tree)


def _rows(over: Any, leaf: Any) -> Any:
    return over.reshape(over.shape + (1,) * (leaf.ndim - 1))


def _cast(jnp: Any, space: Any, value: Any) -> Any:
    inner = getattr(space, "spaces", None)
    if isinstance(inner, dict):
        return {key: _cast(jnp, each, value[key]) for key, each in inner.items()}
    if inner is not None:
        return tuple(_cast(jnp, each, part) for each, part in zip(inner, value, strict=True))
    kind = jnp.int32 if space.dtype.kind == "i" and space.dtype.itemsize == 8 else space.dtype
    return jnp.asarray(value).astype(kind)


def _zeros(jnp: Any, space: Any) -> Any:
    inner = getattr(space, "spaces", None)
    if isinstance(inner, dict):
        return {key: _zeros(jnp, each) for key, each in inner.items()}
    if inner is not None:
        return tuple(_zeros(jnp, each) for each in inner)
    return jnp.zeros(space.shape or (), jnp.float32 if space.dtype.kind == "f" else jnp.int32)
