"""`maze plugins check`, and the kit as plugin authors import it."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from maze_devkit import Trial, check_plugin
from maze_devkit.general import CHECKS
from maze_devkit.kit import checks, examine, find
from maze_devkit.subject import Subject
from typer.testing import CliRunner

from maze_core.base.errors import ConfigError
from maze_core.cli.main import app
from maze_core.plugins import discovery
from tests.maze_devkit.sources import SOUND

BROKEN = SOUND["wrapper"].replace('    """What is multiplied."""\n', "")
SHORT = SOUND["searcher"].replace('    """Draw at random."""\n\n', "")
"""Its checks take the shortest."""
WAIVING = """

def trial(case):
    from maze_devkit import Trial

    return Trial(waived={"config_described": "nobody reads it"})
"""


def maze(*arguments):
    return CliRunner().invoke(app, ["plugins", "check", *arguments])


def test_a_sound_plugin_ends_with_zero(publish):
    publish("searcher", SOUND["searcher"])
    result = maze("tested")
    assert result.exit_code == 0, result.output
    assert f"none of {len(checks('searcher'))} checks failed" in result.output


def test_a_broken_one_ends_with_one_and_is_explained_in_words_and_in_json(publish):
    publish("searcher", SHORT)
    result = maze("tested", "--kind", "searcher")
    assert result.exit_code == 1
    told = result.output.partition("\n\n")[2]
    check = next(each for each in CHECKS if each.name == "docstring")
    assert "docstring: failed" in told
    assert all(text in told for text in ("what: the class Tested has no docstring", check.why, check.mend))
    assert "1 of " in told
    result = maze("tested", "--json")
    (report,) = json.loads(result.output)
    assert result.exit_code == 1
    assert (report["kind"], report["name"], report["ok"]) == ("searcher", "tested", False)
    assert [each["check"] for each in report["findings"] if each["state"] == "failed"] == ["docstring"]
    assert len(report["findings"]) == len(checks("searcher"))


@pytest.mark.parametrize("arguments", [["no-such-plugin"], ["mlp", "--kind", "env"], ["mlp", "--kind", "modle"]])
def test_an_unknown_plugin_or_kind_ends_with_two(arguments):
    assert maze(*arguments).exit_code == 2


def test_a_waived_check_says_why(publish, findings):
    others = [each.name for each in checks("wrapper") if each.name != "config_described"]
    found = findings(*publish("wrapper", BROKEN + WAIVING), others)["config_described"]
    assert (found.state, found.what) == ("not applicable", "waived by the plugin: nobody reads it")


def test_a_trial_that_is_none_is_reported(publish, findings):
    source = SOUND["wrapper"] + WAIVING.replace("return Trial", "return dict")
    others = [each.name for each in checks("wrapper") if each.name != "builds"]
    assert findings(*publish("wrapper", source), others)["builds"].state == "failed"


def test_what_others_say_about_a_plugin_is_not_heard(publish, installed, tmp_path):
    from dataclasses import replace

    kind, name = publish("wrapper", BROKEN + WAIVING)
    assert Subject(replace(find(kind, name), distribution="another"), tmp_path / "trials").walk.waived == {}
    assert Subject(find(kind, name), tmp_path / "trials").walk.waived == {"config_described": "nobody reads it"}


def test_the_kit_needs_neither_pytest_nor_torch_until_it_is_used():
    code = "import sys, maze_devkit; print(sorted({'torch', 'pytest', 'numpy'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_file_of_one_line_is_a_test_for_each_check(publish, tmp_path):
    publish("searcher", SHORT)
    file = tmp_path / "test_one.py"
    file.write_text('from maze_devkit import conformance\ntest_conformance = conformance("searcher", "tested")\n')
    outcomes = []

    class Outcomes:
        def pytest_runtest_logreport(self, report):
            if report.when == "call" or report.outcome == "skipped":
                outcomes.append((report.nodeid.partition("[")[2][:-1], report.outcome))

    pytest.main(
        [str(file), "-q", "-p", "no:cacheprovider", "--rootdir", str(tmp_path), "-c", "/dev/null"], [Outcomes()]
    )
    assert [name for name, outcome in outcomes] == [check.name for check in checks("searcher")]
    assert [name for name, outcome in outcomes if outcome == "failed"] == ["docstring"]


def test_every_kind_has_checks_of_its_own():
    for kind in discovery.KINDS:
        names = [check.name for check in checks(kind)]
        assert len(names) == len(set(names)) > len(CHECKS)
        assert all(check.asks and check.why and check.mend for check in checks(kind))


def test_what_a_check_does_to_the_process_is_put_back(tmp_path):
    import os

    def leave_behind(subject):
        os.environ["MAZE_TEST_LEFT_BEHIND"] = "1"
        os.chdir(tmp_path)

    here = Path.cwd()
    check = replace(CHECKS[0], run=leave_behind)
    assert examine(check, Subject(find("model", "mlp"), tmp_path)).state == "passed"
    assert "MAZE_TEST_LEFT_BEHIND" not in os.environ
    assert Path.cwd() == here


def test_the_report_names_the_distribution():
    report = check_plugin("command", "sweep")
    assert report.distribution.startswith("maze-sweep ")
    assert not report.failed
    with pytest.raises(ConfigError, match="unknown searcher"):
        check_plugin("searcher", "no-such-searcher")
    assert Trial().parameters == {}
