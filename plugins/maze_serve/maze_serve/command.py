"""`maze serve RUN`: a policy as an HTTP server on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from maze_core.base.local_modules import allow_local_modules
from maze_core.cli import output

if TYPE_CHECKING:
    import socket

    from maze_serve.policy import ServedPolicy

_LOOPBACK = "127.0.0.1"


def serve(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The run directory.", show_default=False)],
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port on this machine; 0: a free one.")] = 8000,
    checkpoint: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="best, last or previous; default: best, or last if there is no best."),
    ] = None,
    stochastic: Annotated[bool, typer.Option("--stochastic", help="Sample actions.")] = False,
    no_look_ahead: Annotated[
        bool, typer.Option("--no-look-ahead", help="Let the network of a run with a planner act alone.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing.")] = False,
) -> None:
    """Answer HTTP requests of this machine with the actions of a run's policy, until Ctrl-C.

    POST /act takes an observation as JSON and returns the action; GET / describes the spaces, /health and /metrics the
    server. It refuses observations that training refuses. Nothing listens beyond this machine: put a server of your own
    before it for others.

    \b
    Examples:
      maze serve runs/first
      maze serve runs/first --port 0 --checkpoint last
    """
    from maze_core import RunContext
    from maze_serve.app import App
    from maze_serve.policy import ServedPolicy
    from maze_serve.server import Server

    allow_local_modules()
    here = {"runner": {"name": "dev"}, "algorithm.device": "cpu"}  # whatever it was trained with
    with RunContext.open(run, checkpoint, here) as context, listening(port) as listener:
        policy = ServedPolicy(context, deterministic=not stochastic, look_ahead=not no_look_ahead)
        address = f"http://{_LOOPBACK}:{listener.getsockname()[1]}"
        if not quiet:
            output.say(f"serving {run} on {address}; Ctrl-C ends")
        Server(App(policy, _facts(run, policy))).run(listener)


def listening(port: int) -> socket.socket:
    """Return a socket that listens on this machine only.

    Raises:
        ConfigError: the port is taken, or not allowed.
    """
    import socket

    from maze_core import ConfigError

    # Without its protocol, asyncio would not turn off the delay of small packets: 40 ms a request.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((_LOOPBACK, port))
        listener.listen(128)
    except OSError as error:
        listener.close()
        reason = error.strerror or str(error)
        raise ConfigError(f"cannot listen on port {port}: {reason}", "--port", "Next: --port 0") from None
    return listener


def _facts(run: Path, policy: ServedPolicy) -> dict[str, Any]:
    """Return what the server says of itself."""
    config = policy.context.config
    agents = {
        name: {"observation_space": str(seen), "action_space": str(taken)}
        for name, (seen, taken) in policy.spaces.items()
    }
    return {
        "run": run.name,
        "algorithm": config.algorithm.name,
        "environment": getattr(config.env, "id", config.env.name),
        **agents.get("", {"agents": agents}),
        "needs": policy.needs,
    }
