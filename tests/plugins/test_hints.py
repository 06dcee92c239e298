"""A distribution says where to go instead of a name that is no plugin."""


def test_a_hint_is_shown_for_its_name(installation):
    installation.add("maze-gone", source="TEXT = 'It moved: take good'\n", entry="hint:old = {module}:TEXT")
    done = installation.maze("train", "old", "--env", "CartPole-v1")
    assert done.returncode == 2
    assert "unknown algorithm 'old'" in done.stderr
    assert "It moved: take good" in done.stderr


def test_a_broken_hint_hides_nothing(installation):
    installation.add("maze-gone", source="1 / 0\n", entry="hint:old = {module}:TEXT")
    done = installation.maze("train", "old", "--env", "CartPole-v1")
    assert done.returncode == 2
    assert "unknown algorithm 'old'" in done.stderr
    assert "ZeroDivisionError" not in done.stderr


def test_a_hint_is_no_plugin(installation):
    installation.add("maze-gone", source="TEXT = ''\n", entry="hint:old = {module}:TEXT")
    assert "old" not in installation.maze("train", "--help").stdout
