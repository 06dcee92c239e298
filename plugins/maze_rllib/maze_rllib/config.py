"""The configurations of RLlib's algorithms, built from the data in `parameters.json`: RLlib's names and defaults."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import AfterValidator, ConfigDict, Field, JsonValue, PositiveInt, create_model, model_validator
from pydantic.json_schema import SkipJsonSchema

from maze_core import AlgorithmConfig, ConfigError
from maze_core.base.errors import combined
from maze_core.plugins.config import params
from maze_core.plugins.config.explain import nearest
from maze_core.plugins.config.external_fields import Outside
from maze_rllib.families import Family, family
from maze_rllib.flags import FLAGS
from maze_rllib.offered import LEARNERS, THEIR_NETWORK, idle, is_read, switched_off
from maze_rllib.parameters import data, named
from maze_rllib.refused import ELSEWISE, FORMER, METHODS, OF_NETWORKS, REFUSED, Reason, unread

Point = tuple[Annotated[int, Field(ge=0)], float]
Schedule = Annotated[list[Point], Field(min_length=2)]
"""Values by environment steps, from step 0, between which RLlib interpolates."""
_NO_FLAG: Any = SkipJsonSchema()  # type: ignore[type-arg]
_Mapping = dict[str, JsonValue]
_KINDS: Mapping[str, Any] = {
    "bool": bool,
    "int": int,
    "float": float,
    "str": str,
    "list": list[JsonValue],
    "dict": _Mapping,
    "schedule": Schedule,
    "none": None,
}
_FREE = ("str", "list", "dict")
"""Types of values that may hold an address or a path."""


class RLlibConfig(AlgorithmConfig):
    """An algorithm of RLlib: what Maze adds to its parameters."""

    # A field cannot be called `model_config`, so that one has only its alias.
    model_config = ConfigDict(serialize_by_alias=True, populate_by_name=False)

    epoch_length: PositiveInt = 1
    """RLlib's training iterations per epoch."""
    device: Literal["cpu", "cuda", "auto"] = "cpu"
    """Device on which the policy learns; `auto` uses a GPU if there is one. `num_gpus_per_learner` overrides it; none
    there, the default, means one GPU for each learner with `cuda`."""
    rllib_model: bool = False
    """Train RLlib's default network instead of Maze's. Such a run opens where RLlib is installed."""
    watchdog_seconds: Annotated[float, Field(gt=0)] = 120.0
    """Seconds without new steps or without learning before the run ends with an error."""

    model_config_: Annotated[dict[str, JsonValue], SkipJsonSchema(), Outside.ARGUMENTS] = Field(
        {}, alias="model_config"
    )
    """Parameters of RLlib's own network, such as `{fcnet_hiddens: [64, 64]}`."""

    title: ClassVar[str]
    """The algorithm's name in RLlib."""
    theirs: ClassVar[Mapping[str, Any]]
    """RLlib's parameters that can be set, with RLlib's defaults."""
    refused: ClassVar[Mapping[str, tuple[Reason, Any]]]
    """RLlib's other parameters: why they cannot be set, and the value that is accepted, which is what happens."""

    @model_validator(mode="before")
    @classmethod
    def _of_rllib(cls, data: Any) -> Any:
        """Take RLlib's own names for some of Maze's, and refuse what cannot be set."""
        if not isinstance(data, dict):
            return data
        wrong = {name: cls.refused[name][0] for name, value in data.items() if cls._is_wrong(name, value)}
        if wrong:
            raise combined([ConfigError(why, f"algorithm.{name}", hint or None) for name, (why, hint) in wrong.items()])
        whole = {name: value for name, value in data.items() if name not in cls.refused}
        for theirs, ours in _OURS.items():
            if theirs in cls.theirs and theirs in whole:
                if whole.get(ours, whole[theirs]) != whole[theirs]:
                    raise ConfigError(f"is RLlib's name of {ours}, which has another value", f"algorithm.{theirs}")
                whole[ours] = whole.pop(theirs)
        network = whole.get("model_config")
        if isinstance(network, dict) and network.get("use_lstm"):
            whole["model_config"] = {"max_seq_len": _SEQUENCE, **network}
        return whole

    @classmethod
    def _is_wrong(cls, name: str, value: Any) -> bool:
        """Return True if a parameter cannot be set, and a value is not what happens anyway."""
        return name in cls.refused and value != cls.refused[name][1]

    @model_validator(mode="after")
    def _takes_effect(self) -> Self:
        """Refuse values that nothing reads, whatever the rest of the run is."""
        given = {LEARNERS: bool(getattr(self, "num_learners", 0)), THEIR_NETWORK: self.rllib_model}
        errors = [*self.idle(given), *switched_off(self.changed(), self.settings())]
        if errors:
            raise combined(errors)
        return self

    def idle(self, given: Mapping[str, bool]) -> Iterator[ConfigError]:
        """Yield an error for each value that has no effect in a run with what is `given`, as `offered.idle` has it."""
        return idle(self.title, self.changed(), given)

    def settings(self) -> dict[str, Any]:
        """Return RLlib's parameters by RLlib's names; all of them, since RLlib may derive one that is not set."""
        fixed = {name: value for name, value in family(self.title).values.items() if name in self.refused}
        values = self.model_dump(mode="json")
        return fixed | {name: values[_OURS.get(name, name)] for name in self.theirs}

    def changed(self) -> dict[str, Any]:
        """Return the parameters that differ from RLlib's defaults and from Maze's, by RLlib's names."""
        ours = {**self.theirs, **_VALUES, **family(self.title).values}
        settings = self.settings()
        return {name: settings[name] for name in self.theirs if settings[name] not in (self.theirs[name], ours[name])}


_OURS = {"lambda_": "gae_lambda"}
"""What Maze calls parameters that are called otherwise in RLlib."""
_VALUES = {"num_gpus_per_learner": None}
"""Maze's own defaults, for all algorithms."""
_SEQUENCE = 20
"""RLlib's default of `max_seq_len`, which it demands of networks with memory all the same."""


@cache
def config_of(title: str, whole: bool = False) -> type[RLlibConfig]:
    """Return the configuration of an algorithm of RLlib. `whole`: with parameters that nothing reads, to try them."""
    facts: dict[str, tuple[str, Any]] = {**data()["any"], **data()[title]}
    kind = family(title)
    refused = _refused(title, facts, whole)
    theirs = {name: default for name, (_, default) in facts.items() if name not in refused}
    fields = {
        **_of_maze(kind),
        **_of_theirs({name: facts[name] for name in theirs if name != "model_config"}, {**_VALUES, **kind.values}),
    }
    model = create_model(f"{title}Config", __base__=RLlibConfig, __module__=__name__, **fields)
    model.__doc__ = f"RLlib's {title}."
    model.title, model.theirs, model.refused = title, theirs, refused
    return model


def __getattr__(name: str) -> Any:
    """Return the configuration `TITLEConfig`, by which pickle finds it."""
    title = name.removesuffix("Config")
    if title == name or title not in named().values():
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return config_of(title)


def _of_maze(kind: Family) -> dict[str, Any]:
    """Return the fields that an algorithm has beside RLlib's."""
    fields: dict[str, Any] = {}
    if kind.offline:
        text = "Folder of recorded trajectories, written by `maze rollout --record`, or one that contains several."
        dataset = Annotated[str, Field(min_length=1, description=text), Outside.NOTHING]
        fields["dataset"] = (dataset, "trajectory_data")
    if kind.has_critics:
        text = "Units of each critic's layers, which follow its own copy of the policy's encoder."
        fields["critic_hidden"] = (Annotated[params.Hidden, Field(description=text)], (256, 256))
    fields["epoch_length"] = (Annotated[PositiveInt, Field(description=kind.iterations)], kind.epoch_length)
    if kind.module is None:
        text = "RLlib's own network learns, the only one for this algorithm."
        fields["rllib_model"] = (Annotated[Literal[True], Field(description=text)], True)
    return fields


def _of_theirs(facts: Mapping[str, tuple[str, Any]], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of RLlib's parameters: first those with a flag. `values` are Maze's own defaults."""
    fields: dict[str, Any] = {}
    for name in (*filter(facts.__contains__, FLAGS), *(name for name in facts if name not in FLAGS)):
        words, default = facts[name]
        ours = _OURS.get(name, name)
        field = f"{ours.lstrip('_')}_" if ours.startswith("_") else ours
        text = FLAGS[name].text if name in FLAGS else f"RLlib's parameter `{name}`."
        alias = None if field == ours else ours  # a name that pydantic does not allow
        preferred = values.get(name, default)
        fields[field] = (_type(name, words, default, preferred), Field(preferred, alias=alias, description=text))
    return fields


def _type(name: str, words: str, default: Any, preferred: Any) -> Any:
    """Return the annotation of a parameter of RLlib; `default` is RLlib's, and `preferred` is Maze's."""
    flag = FLAGS.get(name)
    limits = dict(flag.limits) if flag else {}
    found: Any = None
    for word in words.split("|"):
        kind = Annotated[_KINDS[word], Field(**limits)] if limits and word in ("int", "float") else _KINDS[word]
        if word != "none" or flag is None or flag.optional or None in (default, preferred):
            found = kind if found is None else found | kind
    marks: list[Any] = [] if flag else [_NO_FLAG]
    marks.append(Outside.ARGUMENTS if any(word in _FREE for word in words.split("|")) else Outside.NOTHING)
    marks += [AfterValidator(_merging(default))] if "dict" in words else []
    for mark in marks:
        found = Annotated[found, mark]
    return found


def _merging(default: Any) -> Callable[[Any], Any]:
    """Return a function that completes a mapping by its default, unless it names another type.

    It refuses keys that the default lacks.
    """

    def merged(value: Any) -> Any:
        _check_classes(value)
        if not isinstance(value, dict) or not default or value.get("type", default.get("type")) != default.get("type"):
            return value
        for key in value.keys() - default.keys():
            raise ValueError(f"{key}: unknown key; {nearest(key, default)}")
        return {**default, **value}

    return merged


def _check_classes(value: Any) -> None:
    """Refuse a class named by its path: RLlib would import the module and call whatever the path names."""
    for key, each in value.items() if isinstance(value, dict) else ():
        if key == "type" and isinstance(each, str) and not each.isidentifier():
            raise ValueError(f"{key}: {each!r:.80} is not the name of one of RLlib's own classes")
        _check_classes(each)


def _refused(title: str, facts: Mapping[str, tuple[str, Any]], whole: bool) -> dict[str, tuple[Reason, Any]]:
    """Return the parameters that cannot be set, each with what to do instead and the value that is accepted."""
    found = {name: unread(title, name) for name in facts if not (whole or is_read(title, name))}
    for name, (words, _) in facts.items():
        if words == "object":
            found[name] = Reason("cannot be set: it takes a class or a function of Python")
    others = {name: METHODS[method] for method, names in data()["others"].items() for name in names}
    others |= {name: reason for name, reason in REFUSED.items() if name in facts}
    if "actor_lr" in facts:
        others["lr"] = Reason("each network has a rate of its own", "Next: --actor-lr, --critic-lr")
    found |= {name: Reason(f"cannot be set: {why}", hint) for name, (why, hint) in others.items()}
    for name, now in {**data()["former"], **FORMER}.items():
        if name not in facts:
            then = found.get(now, Reason(""))
            text = f"RLlib calls it {now} now" if now else "RLlib no longer has it"
            found[name] = Reason(text + (f", which {then.why}" if then.why else ""), then.hint)
    found = {**OF_NETWORKS, **found}
    return {name: (reason, _accepted(name, facts)) for name, reason in found.items()}


def _accepted(name: str, facts: Mapping[str, tuple[str, Any]]) -> Any:
    """Return RLlib's default of a parameter that cannot be set, unless something else happens."""
    return facts[name][1] if name in facts and name not in ELSEWISE else None
