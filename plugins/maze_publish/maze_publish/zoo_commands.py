"""`maze zoo`: the policies that are installed."""

from __future__ import annotations

from typing import Annotated

import typer

from maze_core.cli import output

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="List and describe the trained policies at hand.")


@app.command("list")
def list_(as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """List the policies of the zoo.

    \b
    Examples:
      maze zoo list
      maze eval zoo:ppo-CartPole-v1
    """
    from maze_publish.opening import card_of
    from maze_publish.policies_at_hand import policies

    cards = {name: card_of(file) for name, file in policies().items()}
    if as_json:
        output.print_json({name: card.model_dump(mode="json") for name, card in cards.items()})
        return
    rows = [
        (
            f"zoo:{name}",
            card.environment,
            "-" if card.score is None else card.score.text,
            f"{card.parameters:,}",
            ", ".join(word for word, true in (("memory", card.memory), ("agents", card.agents)) if true),
        )
        for name, card in cards.items()
    ]
    output.print_table(("address", "environment", "return", "parameters", "with"), rows, (4, 3))
    output.say(f"Next: maze eval zoo:{next(iter(cards), 'NAME')}")


@app.command()
def show(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A policy of the zoo.", show_default=False)],
) -> None:
    """Show the card of a policy of the zoo.

    \b
    Examples:
      maze zoo show ppo-CartPole-v1
      maze zoo show ppo-LunarLander-v3
    """
    from maze_publish.opening import card_of
    from maze_publish.policies_at_hand import policy_named
    from maze_publish.telling import tell

    tell(card_of(policy_named(name.removeprefix("zoo:"))))
