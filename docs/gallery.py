"""Make the pictures of docs/gallery.md anew: `make gallery`. It needs Chromium, for the pictures of pages.

Runs are short and have fixed seeds, so the pictures differ from time to time only in speeds and dates. What else they
depend on, their commands, presets and columns, is written beside them (made.json): a test fails when that has changed.
"""

from __future__ import annotations

import contextlib
import hashlib
import inspect
import io
import json
import os
import pty
import re
import shutil
import subprocess
import sys
import tempfile
import termios
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text
from terminal_film import draw, record

PICTURES = Path(__file__).resolve().parent / "pictures"
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
OPTIONS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--virtual-time-budget=5000"),
    "--host-resolver-rules=MAP * ~NOTFOUND",
)
PRESETS = (("ppo", "CartPole-v1"), ("a2c", "CartPole-v1"))
FILMED = {
    "lander": "ppo-LunarLander-v3",
    "acrobot": "ppo-Acrobot-v1",
    "pendulum": "sac-Pendulum-v1",
    "grid": "ppo-MiniGrid-Empty-5x5-v0",
    "car": "a2c-MountainCarContinuous-v0",
}
"""Policies of the zoo, by the name of the picture."""
TRAIN = "maze train {} --env CartPole-v1 --seed {} --steps {} --epoch-length {} --run-dir runs/{}-{}"
SVG = """<svg viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{ font-family: Menlo, Consolas, "DejaVu Sans Mono", monospace; font-size: {char_height}px; \
line-height: {line_height}px; }}
.{unique_id}-title {{ font-size: 18px; font-weight: bold; font-family: sans-serif; }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}"/>
</clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""
"""Rich's own format names fonts of another site."""


def main() -> None:
    """Make every picture in a folder of its own, then replace those of the documentation.

    Arguments name the functions of some pictures, if only these are to be made.
    """
    makers = {each.__name__: each for each in MAKERS}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        made = folder / "pictures"
        made.mkdir()
        for name in sys.argv[1:] or makers:
            makers[name](folder, made)
        (made / "made.json").write_text(json.dumps(shown(), indent=1) + "\n", encoding="utf-8")
        for file in sorted(made.iterdir()):
            shutil.copy(file, PICTURES)
            sys.stdout.write(f"{file.name}: {file.stat().st_size / 1000:.0f} kB\n")


def shown() -> dict[str, str]:
    """Return what the pictures depend on, as digests: the commands, and presets and columns of each algorithm."""
    from maze_core.plugins import discovery
    from maze_core.plugins.config.presets import named_presets, package, presets_of_package

    commands = "".join(inspect.getsource(each) for each in MAKERS) + TRAIN
    found = {"commands": commands}
    for name, env in PRESETS:
        plugin = discovery.load("algorithm", name)
        preset = named_presets(name, presets_of_package(package(plugin), name))[env]
        found[f"{name} on {env}"] = json.dumps([preset.content, dict(plugin.columns)], sort_keys=True)
    return {name: hashlib.sha256(text.encode()).hexdigest()[:12] for name, text in found.items()}


def console(folder: Path, made: Path) -> None:
    """What the terminal shows."""
    screen(folder, made / "train.svg", TRAIN.format("ppo", 1, 50_000, 10, "ppo", 1), columns=132)
    screen(folder, made / "mistake.svg", "maze train ppo --env CartPole-v1 --set algorithm.lrr=1", columns=110)
    screen(folder, made / "check.svg", "maze envs check minigrid:MiniGrid-Empty-5x5-v0", columns=120)


def curves(folder: Path, made: Path) -> None:
    """Learning curves with bands over seeds, the same runs in a table, and where two of them differ."""
    for seed in (2, 3):
        run(folder, TRAIN.format("ppo", seed, 50_000, 10, "ppo", seed))
    for seed in (1, 2, 3):
        run(folder, TRAIN.format("a2c", seed, 50_000, 32, "a2c", seed))
    screen(folder, made / "list.svg", "maze runs list runs", columns=100)
    screen(folder, made / "compare.svg", "maze runs compare runs", columns=110)
    run(folder, "maze runs plot runs --out pictures/curves.png --title CartPole-v1")


def sweep(folder: Path, made: Path) -> None:
    """What a sweep over a learning rate ends with."""
    command = (
        "maze sweep ppo --env CartPole-v1 --over algorithm.lr=1e-4,1e-3,1e-2 --seeds 2 --steps 20000 --dir lr --jobs 1"
    )
    screen(folder, made / "sweep.svg", command, columns=132)


def film(folder: Path, made: Path) -> None:
    """What policies of the zoo have learned: one episode each."""
    for name, policy in FILMED.items():
        run(folder, f"maze eval zoo:{policy} --episodes 1 --seed 5 --video films/{name}")
        gif(folder / "films" / name / "episode-0.mp4", made / f"{name}.gif")


def gif(video: Path, file: Path) -> None:
    """Some pictures of a film, small and with few colours, at one and a half times its pace."""
    import imageio.v2 as imageio
    from PIL import Image

    reader = imageio.get_reader(video)
    seen = list(reader.iter_data())
    every = 5 if len(seen) > 100 else 1
    height, width = seen[0].shape[:2]
    size = (round(240 * width / height), 240)
    frames = [Image.fromarray(frame).resize(size) for frame in [*seen[::every][:60], *seen[-1:] * 8]]
    plain = {"method": Image.Quantize.MEDIANCUT, "dither": Image.Dither.NONE}
    colours = frames[len(frames) // 2].quantize(24, **plain)
    first, *others = (frame.quantize(palette=colours, dither=Image.Dither.NONE) for frame in frames)
    pause = round(1000 * every / reader.get_meta_data()["fps"] / 1.5)
    first.save(file, save_all=True, append_images=others, duration=pause, loop=0, optimize=True)


def terminal(folder: Path, made: Path) -> None:
    """A film of a terminal: a run from its header to its end, at twice its pace."""
    command, size = "maze train ppo --env CartPole-v1 --seed 1 --steps 30000 --epoch-length 5", (30, 100)
    screens = record(folder, command, size, settled, every=0.3)
    clean = [(at / 2, [line.replace(f"{folder}/", "") for line in screen]) for at, screen in screens]
    title = "A terminal: maze train ppo, its table growing row by row, and how the run ends."
    (made / "terminal.svg").write_text(draw(command, clean, size, title), encoding="utf-8")


def pages(folder: Path, made: Path) -> None:
    """The viewer in a browser, and the picture of a network."""
    run(folder, "maze view runs/ppo-1 --no-open --episodes 1 --frames 40 --out view.html")
    photograph(f"{(folder / 'view.html').as_uri()}#episode=0&step=100", made / "view.png", 1100, 1420)
    shutil.copy(folder / "runs" / "ppo-1" / "network.svg", made / "network.svg")


def run(folder: Path, command: str, columns: int = 120) -> str:
    """Run a command on a terminal of this width; return what stands on it in the end, with its colours."""
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (50, columns))
    settings = {**os.environ, "TERM": "xterm-256color", "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(command.split(), cwd=folder, env=settings, stdin=theirs, stdout=theirs, stderr=theirs):  # noqa: S603
        os.close(theirs)
        written = b""
        with contextlib.suppress(OSError):  # the end
            while part := os.read(ours, 65_536):
                written += part
    os.close(ours)
    shown = settled(written.decode()).replace(f"{folder}/", "")
    if "Traceback" in shown:
        sys.exit(f"{command}\n{shown}")
    return shown


def settled(written: str) -> str:
    """Return the lines of a terminal after all that was written: what was overwritten or erased is gone."""
    lines, row, fresh = [""], 0, True
    for part in re.split(r"(\x1b\[[0-9;?]*[A-Za-z]|[\r\n])", written):
        if part == "\n":
            row += 1
            lines += [""] * (row == len(lines))
            fresh = True
        elif part == "\r":
            fresh = True
        elif part.startswith("\x1b[") and part[-1] == "A":
            row = max(0, row - int(part[2:-1] or 1))
        elif part.startswith("\x1b[") and part[-1] == "K":
            lines[row] = ""
        elif part and (part[-1] == "m" or not part.startswith("\x1b")):
            lines[row], fresh = ("" if fresh else lines[row]) + part, False
    return "\n".join(lines)


def screen(folder: Path, file: Path, command: str, *, columns: int) -> None:
    """A picture of a terminal after a command."""
    paper = Console(record=True, width=columns, file=io.StringIO(), force_terminal=True)
    paper.print(Text(f"$ {command}", style="bold"))
    paper.print(Text.from_ansi(run(folder, command, columns).strip("\n")))
    text = paper.export_svg(title="maze", theme=MONOKAI, code_format=SVG, unique_id=file.stem)
    file.write_text(text, encoding="utf-8")


def photograph(page: str, file: Path, width: int, height: int) -> None:
    """A picture of a page as a browser without a network shows it."""
    program = next((path for path in map(shutil.which, BROWSERS) if path), None)
    if program is None:
        sys.exit("no Chromium is installed: apt-get install chromium")
    with tempfile.TemporaryDirectory() as profile:
        options = [*OPTIONS, f"--user-data-dir={profile}", f"--window-size={width},{height}", f"--screenshot={file}"]
        subprocess.run([program, *options, page], check=True, capture_output=True)  # noqa: S603


MAKERS = (console, curves, sweep, pages, film, terminal)
"""In the order in which they are called: later ones show runs of earlier ones."""

if __name__ == "__main__":
    main()
