"""What a plugin shares among its checks is started once, and is not there where it would hide something."""

import sys

from maze_devkit.kit import check_plugin, find

from tests.maze_devkit.sources import SOUND

SERVER = '''
LOG = []


@contextmanager
def server():
    """Writes down when it begins and ends."""
    LOG.append("begins")
    os.environ["MAZE_TEST_SERVER"] = "1"
    yield
    LOG.append("ends")


def trial(case):
    from maze_devkit import Trial

    return Trial(shared=server)


class Tested(Searcher):
    """Draw at random."""
'''
SHARING = "import os\nfrom contextlib import contextmanager\n" + SOUND["searcher"].replace(
    'class Tested(Searcher):\n    """Draw at random."""\n', SERVER
)


def log_of(kind, name):
    return sys.modules[find(kind, name).entry_point.module].LOG


def test_a_server_is_started_once_and_ends_before_the_global_state_is_looked_at(publish):
    plugin = publish("searcher", SHARING)
    running = {}

    def note(finding):
        running[finding.check] = log_of(*plugin)[-1:] == ["begins"]

    report = check_plugin(*plugin, note)
    assert not report.failed, "\n".join(map(str, report.failed))
    assert log_of(*plugin) == ["begins", "ends"]
    own = ["proposes", "repeats", "goes_on"]
    assert [check for check, there in running.items() if there] == own


def test_what_a_server_does_to_the_process_is_put_back(publish):
    import os

    plugin = publish("searcher", SHARING)
    seen = {}
    check_plugin(*plugin, lambda finding: seen.update({finding.check: "MAZE_TEST_SERVER" in os.environ}))
    assert seen["goes_on"]
    assert not seen["global_state"]


def test_a_server_that_does_not_start_is_what_the_checks_find(publish):
    plugin = publish("searcher", SHARING.replace('LOG.append("begins")', 'raise OSError("no port")'))
    failed = {finding.check: finding.what for finding in check_plugin(*plugin).failed}
    assert list(failed) == ["proposes", "repeats", "goes_on"]
    assert all("no port" in what for what in failed.values())


def test_tests_of_a_plugin_share_as_well(publish, tmp_path):
    import pytest

    publish("searcher", SHARING)
    file = tmp_path / "test_sharing.py"  # a name of its own: pytest runs in this process
    file.write_text('from maze_devkit import conformance\ntest_conformance = conformance("searcher", "tested")\n')
    chosen = "not global_state"  # which would end it
    assert not pytest.main(
        [str(file), "-q", "-k", chosen, "-p", "no:cacheprovider", "--rootdir", str(tmp_path), "-c", "/dev/null"]
    )
    assert log_of("searcher", "tested") == ["begins", "ends"]
