"""The configurations of RLlib's algorithms, built from the data in `parameters.json`: RLlib's names and defaults."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, ConfigDict, Field, JsonValue, PositiveInt, create_model, model_validator
from pydantic.json_schema import SkipJsonSchema

from maze_core.base.errors import ConfigError
from maze_core.plugins.config import params
from maze_core.plugins.config.explain import combined, nearest
from maze_core.plugins.config.external_fields import Outside
from maze_core.plugins.config.run import AlgorithmConfig
from maze_rllib.families import Family, family
from maze_rllib.flags import FLAGS
from maze_rllib.parameters import data, named
from maze_rllib.refused import METHODS, REFUSED

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
    """Device on which the policy learns; `auto` uses a GPU if there is one. `num_gpus_per_learner` overrides it."""
    rllib: Annotated[_Mapping, Outside.ARGUMENTS] = Field(default_factory=dict)
    """Parameters by their names in RLlib, as earlier versions had them here. They belong to the algorithm itself."""
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
    refused: ClassVar[Mapping[str, tuple[str, Any]]]
    """RLlib's other parameters: why they cannot be set, and the default, which is accepted."""

    @model_validator(mode="before")
    @classmethod
    def _of_rllib(cls, data: Any) -> Any:
        """Take the parameters in `rllib` and RLlib's own names for some of Maze's."""
        if not isinstance(data, dict):
            return data
        given = data["rllib"] if isinstance(data.get("rllib"), dict) else {}
        whole = {**data, **given, **({"rllib": {}} if given else {})}
        wrong = [name for name in whole if name in cls.refused and whole[name] not in (None, cls.refused[name][1])]
        if wrong:
            raise combined([ConfigError(cls.refused[name][0], f"algorithm.{name}") for name in wrong])
        whole = {name: value for name, value in whole.items() if name not in cls.refused}
        for theirs, ours in _OURS.items():
            if theirs in cls.theirs and theirs in whole:
                whole[ours] = whole.pop(theirs)
        return whole

    def settings(self) -> dict[str, Any]:
        """Return the parameters that differ from RLlib's defaults, by RLlib's names."""
        fixed = {name: value for name, value in family(self.title).values.items() if name in self.refused}
        values = self.model_dump(mode="json")
        named = {name: values[_OURS.get(name, name)] for name in self.theirs}
        return fixed | {name: value for name, value in named.items() if value != self.theirs[name]}


_OURS = {"lambda_": "gae_lambda"}
"""What Maze calls parameters that are called otherwise in RLlib."""


@cache
def config_of(title: str) -> type[RLlibConfig]:
    """Return the configuration of an algorithm of RLlib."""
    facts: dict[str, tuple[str, Any]] = {**data()["any"], **data()[title]}
    kind = family(title)
    refused = _refused(facts)
    theirs = {name: default for name, (_, default) in facts.items() if name not in refused}
    fields = {
        **_of_maze(kind),
        **_of_theirs({name: facts[name] for name in theirs if name != "model_config"}, kind.values),
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


def _refused(facts: Mapping[str, tuple[str, Any]]) -> dict[str, tuple[str, Any]]:
    """Return the parameters that cannot be set, each with what to do instead and RLlib's default."""
    reasons = {
        name: "it takes a class or a function of Python" for name, (words, _) in facts.items() if words == "object"
    }
    reasons |= {name: METHODS[method] for method, names in data()["others"].items() for name in names}
    reasons |= {name: REFUSED[name] for name in facts if name in REFUSED}
    if "actor_lr" in facts:
        reasons["lr"] = "each network has a rate of its own, such as actor_lr and critic_lr"
    texts = {name: f"cannot be set: {reason}" for name, reason in reasons.items()}
    for name, now in data()["former"].items():
        if name not in facts:
            text = f"RLlib calls it {now} now" if now else "RLlib no longer has it"
            texts[name] = text + (f", which {texts[now]}" if now in texts else "")
    return {name: (text, facts[name][1] if name in facts else None) for name, text in texts.items()}
