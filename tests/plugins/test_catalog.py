"""The catalogue is quick, imports nothing into the asking process, and is never out of date."""

import json

LIST = """
import json, sys
from maze_core.plugins import catalog, probe
if {forbid}:
    def refuse(*_): raise SystemExit("probed")
    probe.examine = refuse
found = {{info.name: (info.state, info.summary) for info in catalog.catalog("wrapper")}}
print(json.dumps([found, [m for m in ("torch", "pydantic", "gymnasium", "fine") if m in sys.modules]]))
"""


DAMAGE = """
import json
from pathlib import Path
from maze_core.plugins import catalog, probe

probed = []
def examine(claims):
    probed.append(claims)
    return [("ok", "")] * len(claims)

probe.examine = examine
cache, states = Path({cache!r}), set()
for damage in ("[", "[]", '{{"a": 3}}', '{{"a": ["x"]}}', None):
    cache.write_text(damage or "")
    if damage is None:
        cache.unlink()
        cache.parent.rmdir()
        cache.parent.write_text("a file where the folder should be")
    states |= {{info.state for info in catalog.catalog("wrapper")}}
print(json.dumps([len(probed), sorted(states)]))
"""


def listed(installation, forbid=False, fresh=False):
    done = (installation.fresh_python if fresh else installation.python)(LIST.format(forbid=forbid))
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_it_imports_no_plugin_and_no_heavy_library(installation):
    installation.add("fine")
    found, imported = listed(installation, fresh=True)
    assert found["good"] == ["ok", "Does nothing, well."]
    assert imported == []


def test_the_second_time_nothing_is_probed(installation):
    installation.add("fine")
    first, _ = listed(installation)
    assert listed(installation, forbid=True)[0] == first


def test_the_page_of_a_plugin_imports_no_other(installation):
    installation.add("fine")
    installation.add("mine", "from pathlib import Path\nPath('imported').touch()", entry="wrapper:mine = {module}:Good")
    installation.cwd = here = installation.site.parent / "here"
    here.mkdir()
    assert "state:        ok" in installation.maze("plugins", "info", "Good").stdout
    assert not (here / "imported").exists()
    assert "state:        broken" in installation.maze("plugins", "info", "mine").stdout
    assert (here / "imported").exists()
    assert "did you mean mine?" in installation.maze("plugins", "info", "mone").stderr


def test_changes_are_noticed(installation):
    installation.add("fine")
    assert listed(installation)[0]["good"][0] == "ok"
    (installation.site / "fine.py").write_text("raise RuntimeError('changed')")
    assert listed(installation)[0]["good"][0] == "broken"
    (installation.site / "fine.py").write_text("import helper_module\nfrom helper_module import Good")
    assert listed(installation)[0]["good"][0] == "broken"
    source = "from maze_core.plugins.base import Plugin\nclass Good(Plugin):\n    '''Moved.'''"
    (installation.site / "helper_module.py").write_text(source)
    assert listed(installation)[0]["good"] == ["ok", "Moved."]


def test_a_damaged_or_unwritable_cache_is_no_problem(installation):
    installation.add("fine")
    listed(installation)
    (cache,) = (installation.cache / "maze").glob("*.json")
    done = installation.python(DAMAGE.format(cache=str(cache)))
    assert done.returncode == 0, done.stderr
    probed, states = json.loads(done.stdout)
    assert probed == 5
    assert states == ["ok"]


def test_what_plugins_print_at_import_does_not_disturb(installation):
    installation.add("fine", "print('noise')\nfrom maze_core.plugins.base import Plugin\nclass Good(Plugin): pass")
    assert listed(installation)[0]["good"] == ["ok", ""]


def test_a_hanging_import_is_cut_off(installation):
    """A busy machine may need longer than the first limit for the other plugin; then the next limit decides."""
    installation.add("sleepy", "import time; time.sleep(600)")
    installation.add("fine", entry="wrapper:quick = {module}:Good")
    code = """
from maze_core.plugins import discovery
from maze_core.plugins.probe import examine
claims = [c for c in discovery.declarations() if c.name in ("good", "quick")]
claims.sort(key=lambda c: c.name)
for limit in (2.0, 16.0, 50.0):
    found = examine(claims, timeout=limit)
    assert found[0] == ("broken", f"importing it takes longer than {limit:.0f} s")
    if found[1][0] == "ok":
        break
print(found[1])
"""
    done = installation.python(code)
    assert done.stdout.strip() == "('ok', '')", done.stderr
