from maze_core.wording import counted


def test_one_and_more():
    assert [counted(n, "epoch") for n in (0, 1, 1200)] == ["0 epochs", "1 epoch", "1,200 epochs"]
