"""What people search they find: the page that answers is among the first three hits of the site's search.

The words are those of public threads about libraries of reinforcement learning.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

from tests.docs.site_search import Search, of_site, sections

DOCS = Path(__file__).resolve().parents[2] / "docs"
SEARCHES = {
    "guide/runs.md": (
        *("resume training", "continue training from checkpoint", "load checkpoint", "save and load model"),
        *(
            "evaluate trained agent",
            "fine-tune pretrained policy",
            "reproducible results seed",
            "record video",
            "slurm",
        ),
    ),
    "environments/your_own.md": ("custom environment", "own gym environment"),
    "guide/environments.md": (
        *(
            "action mask",
            "invalid actions",
            "dict observation",
            "multidiscrete action space",
            "vectorized environments",
        ),
        *("parallel environments", "time limit truncation", "isaac gym"),
    ),
    "environments/packages.md": ("atari preprocessing", "mujoco version", "minigrid"),
    "guide/wrappers.md": ("frame stacking", "normalize observations", "normalize rewards", "reward clipping"),
    "guide/models.md": ("custom policy network", "image observations cnn"),
    "guide/memory.md": ("recurrent policy lstm", "partial observability"),
    "guide/actors.md": ("privileged critic", "asymmetric actor critic", "hierarchical actions"),
    "guide/multi_agent.md": ("multi agent", "pettingzoo", "self-play", "mappo", "centralized critic"),
    "guide/objectives.md": ("early stopping", "safe reinforcement learning", "cost constraint"),
    "guide/schedules.md": ("learning rate schedule", "learning rate decay", "exploration noise", "epsilon greedy"),
    "guide/curricula.md": ("curriculum learning", "domain randomization"),
    "guide/goals.md": ("hindsight experience replay", "sparse rewards"),
    "guide/extending.md": ("custom loss function", "curiosity", "intrinsic reward"),
    "guide/configuration.md": ("config file yaml", "custom callback"),
    "guide/loggers.md": ("tensorboard", "wandb", "log custom metrics"),
    "guide/sweeps.md": ("hyperparameter tuning", "optuna", "population based training"),
    "guide/comparing.md": ("compare algorithms", "plot learning curves", "confidence interval over seeds"),
    "guide/faster.md": ("multiple gpus", "gpu slower than cpu", "training is slow"),
    "guide/cluster.md": ("ray cluster",),
    "guide/kubernetes.md": ("kubernetes",),
    "guide/deployment.md": ("export onnx", "inference without torch", "rest api server"),
    "guide/trajectories.md": ("minari dataset",),
    "guide/python.md": ("python api",),
    "does_not_learn.md": (
        *("nan loss", "reward does not increase", "exploding gradients", "catastrophic forgetting", "hyperparameters"),
    ),
    "algorithms/sac.md": ("save replay buffer", "expert demonstrations"),
    "algorithms/bc.md": ("behavior cloning",),
    "algorithms/gail.md": ("imitation learning",),
    "algorithms/iql.md": ("offline reinforcement learning",),
    "algorithms/dqn.md": ("distributional rl c51",),
    "algorithms/dt.md": ("decision transformer",),
    "algorithms/alphazero.md": ("monte carlo tree search",),
    "algorithms/maml.md": ("meta learning",),
    "coming_from.md": ("stable baselines3",),
    "install.md": ("pip install", "docker"),
}
"""Pages, and what they answer."""


def _search() -> Search:
    """Return the index of the site, which takes seconds to make."""
    spec = importlib.util.spec_from_file_location("docs_hooks", DOCS / "site" / "hooks.py")
    assert spec is not None
    assert spec.loader is not None
    hooks = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(hooks)
    return of_site(hooks, DOCS)


def test_the_page_that_answers_is_among_the_first_three() -> None:
    assert sum(map(len, SEARCHES.values())) >= 60
    search = _search()
    asked = [(page, words) for page, searches in SEARCHES.items() for words in searches]
    wrong = {words: found for page, words in asked if page not in (found := search.pages(words)[:3])}
    assert not wrong


def test_a_title_counts_more_than_a_text_and_a_boost_more_than_none() -> None:
    found = sections("a.md", "# Notes\n\nOf the `weather`.\n\n```bash\n# a sun\n```\n", 1.0)
    found += sections("b.md", "# Sun\n\n## Weather, the\n\nNothing.\n", 1.0)
    found += sections("c.md", "# Rain\n\nThe weather and the sun.\n", 2.0)
    search = Search(found)
    assert search.pages("weath") == ["b.md", "c.md", "a.md"]
    assert search.pages("sun") == ["b.md", "c.md", "a.md"]
    assert search.pages("the") == []
    assert search.pages("snow") == []
