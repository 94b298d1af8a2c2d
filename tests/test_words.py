"""The field's words: retired ones do not come back, and each stands where its subject is defined. docs/glossary.md."""

import io
import re
import tokenize
from pathlib import Path

import pytest

import knotwise

PACKAGE = Path(knotwise.__file__).parent
ROOT = Path(__file__).parents[1]
GLOSSARY = ROOT / "docs" / "glossary.md"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(set(ROOT.glob("docs/*.md")) - {GLOSSARY})]

#: identifiers that were words of this house; each is a whole word of a name, as in `n_told` or `LookAgain`
IDENTIFIERS = (
    "asleep",
    "wake",
    "waking",
    "told",
    "settled",
    "settle",
    "guide",
    "guided",
    "surround",
    "surroundings",
    "arrange",
    "arrangement",
    "watch",
    "oversight",
    "recall",
    "slack",
    "bend",
    "charge",
)

#: phrases that readers of the field had to translate, in code, comments, docstrings and messages
PHRASES = (
    r"what (the )?knots leave",
    r"variance that (the )?knots leave",
    r"\basleep\b",
    r"columns? that seems? not to matter",
    r"lies? beside (a|its|the|each) block",
    r"beside the rows",
    r"looks? again",
    r"how often (a|each|the) rows? counts?",
    r"as often as (it|they|each) counts?",
    r"mix(ing|es|ed)? (of )?the last steps",
    r"did not arrive",
    r"not settled",
    r"held(-| )out",
    r"hold out",
    r"nats of evidence on",
    r"where chance gives",
    r"level of a constant mean",
)

#: the same on the pages of the documentation, where everyday words are rarer
PHRASES_OF_PAGES = (
    *PHRASES,
    r"what (it|they) leaves?\b",
    r"\bsettle[sd]?\b",
    r"\b(have|has) told\b",
    r"rows? tell",
    r"(overall|latent) level",
    r"(the|a) level (is|that the data)",
    r"a (last )?look at",
    r"\ba bar\b",
)

#: field words, and the file in which the subject of each is defined
FIELD_WORDS = {
    "Vecchia": "posterior/vecchia.py",
    "NNGP": "evidence/residual/neighbours.py",
    "ELBO": "evidence/inference/variational.py",
    "log marginal likelihood": "evidence/sparse.py",
    "Anderson acceleration": "evidence/inference/search.py",
    "hyperparameters": "decisions/hyperparameters.py",
    "inactive inputs": "decisions/inactive_inputs.py",
    "lack-of-fit": "decisions/lack_of_fit.py",
    "log Bayes factor": "decisions/signal.py",
    "validation rows": "decisions/trials.py",
    "leave-one-out": "posterior/base.py",
    "inducing points": "__init__.py",
    "warm start": "evidence/blocks.py",
    "surrogate": "selection/problem.py",
    "relative residual variance": "decisions/enough.py",
    "KL penalty": "evidence/inference/variational.py",
    "replicates": "data/observations.py",
    "sample weight": "data/observations.py",
    "heteroscedasticity test": "diagnosis/heteroscedasticity.py",
    "residual autocorrelation test": "diagnosis/autocorrelation.py",
    "intercept": "means.py",
    "observer": "selection/problem.py",
    "run context": "progress.py",
}


def sources():
    return sorted(PACKAGE.rglob("*.py"))


def names_of(path):
    """Every identifier of a file, as words: `look_again` is look, again; `NearTrial` is near, trial."""
    for token in tokenize.generate_tokens(io.StringIO(path.read_text(encoding="utf-8")).readline):
        if token.type == tokenize.NAME:
            yield token.start[0], token.string


def words_of(name):
    return [word.lower() for part in name.split("_") for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", part)]


def test_retired_identifiers_do_not_come_back():
    retired = set(IDENTIFIERS)
    found = [
        f"{path.relative_to(PACKAGE)}:{line} {name}"
        for path in sources()
        for line, name in names_of(path)
        if retired & set(words_of(name))
    ]
    assert not found


def places_of(phrase, paths, root):
    """Where a phrase is found, also across lines, as file:line and what was found."""
    pattern = re.compile(phrase.replace(" ", r"[\s#]+(?:\"\s*f?\")?"), re.IGNORECASE)
    return [
        f"{path.relative_to(root)}:{text.count(chr(10), 0, match.start()) + 1} {match.group()!r}"
        for path in paths
        for text in [path.read_text(encoding="utf-8")]
        for match in pattern.finditer(text)
    ]


@pytest.mark.parametrize("text", ["rows held out", "held-out rows", "# rows held\n# out", 'x = "rows held "\n"out"'])
def test_a_phrase_is_found_with_a_hyphen_and_across_lines(text, tmp_path):
    (tmp_path / "page.md").write_text(text, encoding="utf-8")
    assert any(places_of(phrase, [tmp_path / "page.md"], tmp_path) for phrase in PHRASES)


@pytest.mark.parametrize("phrase", PHRASES)
def test_retired_phrases_do_not_come_back(phrase):
    assert not places_of(phrase, sources(), PACKAGE)


@pytest.mark.parametrize("phrase", PHRASES_OF_PAGES)
def test_retired_phrases_are_on_no_page(phrase):
    assert not places_of(phrase, PAGES, ROOT)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_knots_and_neighbours_are_explained_on_every_page_that_has_them(page):
    """Knots are inducing points where prose has them first; who may have met `n_neighbors` finds Vecchia's name."""
    text = page.read_text(encoding="utf-8")
    prose = re.sub(r"^```.*?^```|^#.*?$|`[^`\n]*`|\]\([^)]*\)", "", text, flags=re.MULTILINE | re.DOTALL)
    first = re.search(r"\bknots?\b", prose, re.IGNORECASE)
    if first:
        assert "inducing point" in prose[: first.end() + 80], prose[max(first.start() - 60, 0) : first.end() + 60]
    assert "Vecchia" in text or not re.search(r"n_neighbors|neighbours\.md", text)


@pytest.mark.parametrize(("word", "home"), FIELD_WORDS.items(), ids=str)
def test_a_field_word_stands_where_its_subject_is_defined(word, home):
    text = re.sub(r"\s+", " ", (PACKAGE / home).read_text(encoding="utf-8"))
    assert word.lower() in text.lower()


@pytest.mark.parametrize("word", FIELD_WORDS)
def test_the_glossary_has_every_field_word(word):
    assert word.lower() in GLOSSARY.read_text(encoding="utf-8").lower()
