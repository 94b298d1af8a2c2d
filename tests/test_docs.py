"""The documentation runs: every ```python block of a page, in order, in one fresh namespace."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = ["README.md", "docs/likelihoods.md"]
LINKED = ["README.md", "CONTRIBUTING.md", *sorted(p.relative_to(ROOT).as_posix() for p in ROOT.glob("docs/**/*.md"))]
FENCE = re.compile(r"^```(?P<info>[^\n]*)\n(?P<code>.*?)^```[ ]*$", re.MULTILINE | re.DOTALL)


def runnable(page):
    """The code of a page's ```python blocks, each at its own line of the page; ```python no-run is left out."""
    text = page.read_text(encoding="utf-8")
    lines = [""] * text.count("\n")
    for block in FENCE.finditer(text):
        if block["info"].split() == ["python"]:
            first = text.count("\n", 0, block.start("code"))
            code = block["code"].splitlines()
            lines[first : first + len(code)] = code
    return "\n".join(lines) + "\n"


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_the_blocks_of_a_page_run_in_order_without_a_warning(page, tmp_path):
    code = runnable(ROOT / page)
    assert code.strip(), f"{page} has no ```python block"
    script = tmp_path / f"{Path(page).stem}.py"  # lines are those of the page, so a traceback points there
    script.write_text(code, encoding="utf-8")
    paths = [str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths)), "MPLBACKEND": "Agg"}
    done = subprocess.run(
        [sys.executable, "-W", "error", str(script)],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, f"{page} fails; line numbers are those of the page:\n{done.stderr}"


def test_blocks_keep_their_lines_and_no_run_is_left_out(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "# T\n\n```python\na = 1\n```\n\n```sh\nls\n```\n```python no-run\nb\n```\n\n```python\nc = a\n\n```\n"
    )
    assert runnable(page).splitlines() == ["", "", "", "a = 1", *[""] * 10, "c = a", "", ""]


@pytest.mark.parametrize("page", LINKED)
def test_links_between_pages_lead_to_files(page):
    folder = (ROOT / page).parent
    text = FENCE.sub("", (ROOT / page).read_text(encoding="utf-8"))
    targets = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text)
    missing = [target for target in targets if "://" not in target and not (folder / target).exists()]
    assert not missing, f"{page} links to files that are not there: {missing}"
