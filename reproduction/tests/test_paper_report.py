"""The report: its structure by a parser, and the page itself in a real browser."""

import re
from collections import Counter
from statistics import median

import pytest

from browser import open_page
from knotwise.plotting.style import MissingMatplotlibError
from knotwise.report.html import Html, Table, paragraph, table_element, tag
from knotwise_reproduction import report
from knotwise_reproduction.claims import judge_claims
from knotwise_reproduction.experiments import EXPERIMENTS
from knotwise_reproduction.findings import VERDICTS, findings
from knotwise_reproduction.report import write_report
from knotwise_reproduction.tables import all_tables
from pages import Page, needs_browser
from paper_rows import make_rows

HOSTILE = "<script>alert('&')</script>"
FAILED = {"experiment": "boston", "setting": "knotwise", "method": "Full", "seed": 2, "error": f"no fit: {HOSTILE}"}

#: two experiments are quick to draw, and the others show what a report says of what was not run
ROWS = [row for row in make_rows(["published"]) if row["experiment"] in ("motivation", "banana")] + [FAILED]


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    return write_report(ROWS, tmp_path_factory.mktemp("report"))


@pytest.fixture(scope="module")
def page(written):
    return Page(written.read_text(encoding="utf-8"))


# -- structure ----------------------------------------------------------------------------------------


def test_the_page_has_language_title_viewport_and_unique_anchors(page):
    assert page.all("html") == [{"lang": "en"}]
    assert page.words("title") == page.words("h1") == [report.TITLE]
    assert any(meta.get("name") == "viewport" for meta in page.all("meta"))
    anchors = Counter(attributes["id"] for _, attributes in page.elements if "id" in attributes)
    assert max(anchors.values()) == 1


def test_the_contents_lead_to_every_section(page):
    targets = [link["href"].removeprefix("#") for link in page.all("a")]
    assert targets == ["findings", *EXPERIMENTS, "claims", "how-it-was-run"]
    assert {*targets} <= {heading.get("id") for heading in page.all("h2")}


def test_every_cell_of_the_tables_of_what_was_run_is_on_the_page(page):
    expected = [table for name, tables in all_tables(ROWS).items() if name in ("banana", "boston") for table in tables]
    assert len(page.all("table")) == len(expected) + 1  # and the count of the verdicts
    cells = Counter(page.words("td", "th"))
    assert not Counter(cell for table in expected for line in table.rows for cell in line if cell) - cells
    assert not Counter(column for table in expected for column in table.columns) - cells
    assert {th["scope"] for th in page.all("th")} <= {"col", "row", "rowgroup"}


def test_lines_without_a_name_share_the_one_above():
    made = Page(
        table_element(Table("t", ("method", "by", "K"), (("a", "paper", "1"), ("", "us", "2"), ("b", "us", "3"))), 3)
    )
    names = [th for th in made.all("th") if th["scope"] != "col"]
    assert names == [{"scope": "rowgroup", "rowspan": "2"}, {"scope": "row"}]
    assert made.words("td") == ["paper", "1", "us", "2", "us", "3"]


def test_the_page_begins_with_its_findings_and_pictures_and_folds_the_claims(page, written):
    text = written.read_text(encoding="utf-8")
    said = findings(ROWS, judge_claims(ROWS))
    assert said and all(sentence in page.words("li") for sentence in said)
    assert text.index("<figure") < text.index('id="motivation"') < text.index('<ol class="claims"')
    folded = text[text.rindex("<summary>", 0, text.index('<ol class="claims"')) :]
    assert folded.startswith("<summary>All ")


def test_findings_count_the_verdicts_and_give_medians_with_units():
    rows = make_rows()
    claims = judge_claims(rows)
    said = findings(rows, claims)
    counts = Counter(claim.verdict for claim in claims if claim.setting == "knotwise")
    n_judged = sum(counts[each] for each in ("holds", "holds in part", "does not hold here"))
    assert f"knotwise's own settings, of {n_judged} claims" in said[1] and f"{counts['holds']} hold" in said[1]
    n_knots = median(row["n_knots"] for row in rows if (row["experiment"], row["method"]) == ("banana", "auto"))
    assert any(f"takes {n_knots:g} knots, MNLP 0.200 (the exact GP: 0.200), in 1.5 s." in each for each in said)


def test_no_label_of_a_typesetter_and_no_wrong_colour_is_on_the_page(page):
    words = " ".join(data for element, data in page.texts if element != "style")
    assert not re.search(r"\bt:|\$|\b[Rr]ed\b", words)
    assert "Orange crosses at the top are the initial knots" in words


def test_every_claim_is_on_the_page_with_its_verdict_and_numbers(page):
    claims = judge_claims(ROWS)
    assert Counter(page.words("b")) == Counter(claim.verdict for claim in claims)
    text = "\n".join(page.words("span", "li"))
    assert all(claim.text in text and claim.evidence in text for claim in claims)
    assert {claim.verdict for claim in claims} <= {*VERDICTS}


def test_figures_are_inside_the_page_with_words_for_those_who_do_not_see_them(page):
    images = page.all("img")
    assert len(images) == len(page.all("figure")) == 4
    kinds = ("data:image/svg+xml;base64,", "data:image/png;base64,")
    assert all(image["src"].startswith(kinds) and len(image["alt"]) > 60 for image in images)
    names = {figure["id"] for figure in page.all("figure")}
    assert names == {
        "figure-1-five-knots-published",
        "figure-2-sixth-knot-published",
        "figure-4-banana-published",
        "figure-5-banana-knots-published",
    }


def test_nothing_is_loaded_from_elsewhere_and_nothing_runs(page):
    addresses = [attributes[key] for _, attributes in page.elements for key in ("src", "href") if key in attributes]
    assert all(address.startswith(("data:", "#")) for address in addresses)
    assert not page.all("script")


def test_what_was_not_run_is_said_with_the_command_that_runs_it(page):
    text = " ".join(data for _, data in page.texts)
    for name in ("gaussian", "hickory", "poisson", "short"):
        assert f"knotwise reproduce {name}" in text
    assert "knotwise reproduce banana" not in text
    assert "Not drawn, for want of rows: Figure 3" in text


def test_versions_threads_and_failed_fits_are_told(page):
    text = " ".join(data for _, data in page.texts)
    assert "threads per fit" in text and "numpy" in page.words("dt")
    assert f"seed 2: no fit: {HOSTILE}" in text  # as text: no such element is there, see above


def test_text_is_escaped_wherever_it_comes_from():
    table = Table(HOSTILE, (HOSTILE, "K"), ((HOSTILE, HOSTILE),), HOSTILE)
    for made in (table_element(table, 3), paragraph(HOSTILE), tag("a", HOSTILE, href=f'"{HOSTILE}')):
        assert not Page(made).all("script")
        assert HOSTILE in "".join(data for _, data in Page(made).texts)
    assert tag("p", Html("<b>bold</b>"), "<") == "<p><b>bold</b>&lt;</p>"


def test_without_rows_the_report_says_so(tmp_path):
    text = write_report([], tmp_path / "new").read_text(encoding="utf-8")
    assert "nothing was run" in text and not Page(text).all("img")


def test_without_matplotlib_the_report_has_its_tables_and_a_word(tmp_path, monkeypatch):
    def absent(rows, out):
        raise MissingMatplotlibError("matplotlib is not here")

    monkeypatch.setattr(report, "draw_figures", absent)
    made = Page(write_report(ROWS, tmp_path).read_text(encoding="utf-8"))
    assert made.all("table") and not made.all("img")
    assert any("There are no figures: matplotlib is not here" in text for text in made.words("p"))


# -- in a browser -------------------------------------------------------------------------------------


@needs_browser
@pytest.mark.parametrize("width, dark", [(390, False), (1200, True)])
def test_a_browser_shows_the_page_whole(written, page, width, dark):
    seen = open_page(written, width=width, dark=dark)
    facts = seen.facts
    assert facts["width"] == width and facts["scroll_width"] <= width
    assert facts["loose"] == 0, "something is wider than the page and not in a box that scrolls"
    assert facts["title"] == report.TITLE and facts["broken"] == [] and facts["dead"] == []
    assert (facts["tables"], facts["images"]) == (len(page.all("table")), len(page.all("img")))
    assert seen.complaints == [] and seen.requests == [written.resolve().as_uri()]
    lightness = sum(map(int, facts["background"].removeprefix("rgb(").removesuffix(")").split(",")))
    assert lightness < 150 if dark else lightness > 700


@needs_browser
def test_the_browser_tells_of_everything_that_can_be_wrong(tmp_path):
    bad = tmp_path / "bad.html"
    bad.write_text(
        '<!DOCTYPE html><meta name="viewport" content="width=device-width"><title>bad</title>'
        '<body style="background: #fff"><img alt="gone" src="data:image/png;base64,AAAA"><a href="#nowhere">x</a>'
        f'<table><tr><td style="white-space: nowrap">{"wide " * 200}</td></tr></table>'
        '<link rel="stylesheet" href="http://127.0.0.1:9/style.css">'
        '<script>console.error("alas"); undefined_name;</script>'
    )
    seen = open_page(bad)
    assert seen.facts["scroll_width"] > 390 and seen.facts["loose"] == 1
    assert seen.facts["broken"] == ["gone"] and seen.facts["dead"] == ["#nowhere"]
    assert "alas" in seen.complaints and any("Uncaught" in text for text in seen.complaints)
    assert "http://127.0.0.1:9/style.css" in seen.requests


@pytest.mark.slow
def test_a_whole_report_is_small_enough_to_send(tmp_path):
    path = write_report(make_rows(), tmp_path)
    assert len(Page(path.read_text(encoding="utf-8")).all("img")) == 16
    assert path.stat().st_size < 3e6
