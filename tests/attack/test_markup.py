"""What looks for markup in files finds it, and does not find it in those that have none."""

import pytest

from tests.attack.markup import problems_of_page

GOOD = {
    "a.html": "<h1>&lt;script&gt;</h1><p>x</p>",
    "a.md": "# a\n\n\\[x\\](javascript:alert\\(1\\)) \\<b\\>\n\n```bash\nmaze report `x` <b>\n```\n",
    "a.tex": "\\begin{table}\\caption{\\textbackslash{}input\\{x\\} 5 \\%}\\end{table}\n",
    "a.csv": "task,algorithm,seed,step,score\n'=1,a,0,1,-5\n",
}
BAD = {
    "a.html": ["<p><script>", "<p onclick=x>", "<p><a href=x>", "<p><img src=x>"],
    "a.md": ["# a\n\n<b>", "# a\n[x](y)", "# a\n`x`", "# a\nhttp://x", "# a\n\\\\<b>", "# a\n---"],
    "a.tex": ["\\input{x}", "\\write18{x}", "^^5cinput", "é", "\\@"],
    "a.csv": ["task,algorithm\n=1,a\n", "task,algorithm\na,@x\n", 'task,algorithm\n"-1",a\n'],
}


@pytest.mark.parametrize("name", GOOD)
def test_nothing_is_found_where_nothing_is(tmp_path, name):
    (tmp_path / name).write_text(GOOD[name])
    assert problems_of_page(tmp_path / name) == []


@pytest.mark.parametrize(("name", "text"), [(name, text) for name, texts in BAD.items() for text in texts])
def test_markup_is_found(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    assert problems_of_page(tmp_path / name)
