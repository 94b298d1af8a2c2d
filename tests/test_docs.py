"""The documentation runs: a page's ```python blocks in one namespace, and ```sh blocks that <!-- run --> marks."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [
    "README.md",
    *(
        f"docs/{name}.md"
        for name in ("files", "kriging", "likelihoods", "neighbours", "priors", "report", "scale", "spatial", "tables")
    ),
]
LINKED = [
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "benchmarks/README.md",
    "reproduction/README.md",
    *sorted(p.relative_to(ROOT).as_posix() for p in ROOT.glob("docs/**/*.md")),
]
SHELL_PAGES = [page for page in LINKED if "<!-- run -->" in (ROOT / page).read_text(encoding="utf-8")]
RUN = re.compile(r"<!-- run -->\s*\n```sh\n(?P<code>.*?)^```[ ]*$", re.MULTILINE | re.DOTALL)
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


@pytest.mark.slow
@pytest.mark.parametrize("page", SHELL_PAGES)
def test_the_shell_blocks_of_a_page_run_in_order_without_an_error(page, tmp_path):
    blocks = [block["code"] for block in RUN.finditer((ROOT / page).read_text(encoding="utf-8"))]
    assert blocks, f"{page} has no ```sh block after <!-- run -->"
    done = subprocess.run(
        ["sh", "-e", "-c", "\n".join(blocks)],
        cwd=tmp_path,
        env=shell_environment(),
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0 and "Traceback" not in done.stderr, f"{page} fails:\n{done.stdout}\n{done.stderr}"


def shell_environment():
    """As after `make setup` and `. .venv/bin/activate`."""
    return os.environ | {
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        "PYTHONPATH": str(ROOT / "src"),
        "PYTHONWARNINGS": "error",
    }


def test_only_marked_shell_blocks_run():
    text = "```sh\nrm -r x\n```\n<!-- run -->\n```sh\nls\n\npwd\n```\n\n```sh\nmake\n```\n"
    assert [block["code"] for block in RUN.finditer(text)] == ["ls\n\npwd\n"]


def test_blocks_keep_their_lines_and_no_run_is_left_out(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "# T\n\n```python\na = 1\n```\n\n```sh\nls\n```\n```python no-run\nb\n```\n\n```python\nc = a\n\n```\n"
    )
    assert runnable(page).splitlines() == ["", "", "", "a = 1", *[""] * 10, "c = a", "", ""]


def anchors(page):
    """The anchors of a page's headings, as GitHub makes them: small letters, without signs, with - for spaces."""
    headings = re.findall(r"^#+ (.+?)\s*$", FENCE.sub("", page.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", LINKED)
def test_links_between_pages_lead_to_files_and_headings(page):
    text = FENCE.sub("", (ROOT / page).read_text(encoding="utf-8"))
    broken = []
    for target, anchor in re.findall(r"\]\(([^)#\s]*)(?:#([^)\s]*))?\)", text):
        if "://" in target or target.startswith("mailto:"):
            continue
        file = (ROOT / page).parent / target if target else ROOT / page
        if not file.exists() or (anchor and file.suffix == ".md" and anchor not in anchors(file)):
            broken.append(f"{target}#{anchor}")
    assert not broken, f"{page} has links that lead nowhere: {broken}"


def test_every_equation_that_is_cited_is_derived():
    """(S7), (L4 to L6), (V8, E6b): a letter of the derivations and a number, in parentheses."""
    pages = [page.read_text(encoding="utf-8") for page in ROOT.glob("docs/derivations/*.md")]
    derived = {tag for page in pages for tag in re.findall(r"^### \(([A-Z]\d+[a-z]?)\)", page, re.MULTILINE)}
    letters = "".join(sorted({tag[0] for tag in derived}))
    tag = rf"[{letters}]\d+[a-z]?"
    for file in [*ROOT.glob("src/**/*.py"), *ROOT.glob("docs/**/*.md")]:
        groups = re.findall(rf"\(({tag}(?:(?:, | to | and ){tag})*)\)", file.read_text(encoding="utf-8"))
        missing = {cited for group in groups for cited in re.findall(tag, group)} - derived
        assert not missing, f"{file.relative_to(ROOT)} cites equations that are not derived: {sorted(missing)}"
