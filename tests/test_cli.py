"""The command line and the demonstration, against the public API, NumPy's formulas and the bytes of the files."""

import io
import subprocess
import sys
import types
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from rich.console import Console
from scipy import stats

import knotwise
from knotwise import GPRegressor, cli, datasets, demo
from knotwise.kernels import SquaredExponential

SEED = 3
FEW = (demo.Candidate("full GP", "full"), demo.Candidate("FIC", "fic", 4), demo.Candidate("VFE", "vfe", 5))


@pytest.fixture(scope="module")
def comparison():
    return demo.compare(SEED, FEW)


@pytest.fixture(scope="module")
def by_hand():
    """The same three models through the public API, and their split."""
    parts = datasets.split(datasets.load_boston(), 0.2, SEED)
    models = [
        GPRegressor(SquaredExponential(), approximation=name, knots=knots, random_state=SEED)
        for name, knots in (("full", 1), ("fic", 4), ("vfe", 5))
    ]
    return parts, [model.fit(parts.X_train, parts.y_train) for model in models]


def printed(comparison, **console):
    """What is shown of a comparison, as text."""
    file = io.StringIO()
    screen = Console(file=file, width=80, **console)
    screen.print(demo.tabulate(comparison))
    return file.getvalue()


# -- the command line ---------------------------------------------------------------------------------


def test_version_is_the_version_of_the_package(capsys):
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out == f"knotwise {knotwise.__version__}\n"


def test_no_command_shows_every_command(capsys):
    assert cli.main([]) == 0
    help_text = " ".join(capsys.readouterr().out.split())
    assert all(name in help_text and command.help in help_text for name, command in cli.COMMANDS.items())


@pytest.mark.parametrize(
    "words, nearest", [(["dmeo"], "'demo'"), (["demo", "--sed", "1"], "'--seed'"), (["--verison"], "'--version'")]
)
def test_a_misspelt_word_is_answered_by_the_nearest_known_one(words, nearest, capsys):
    assert cli.main(words) == 2
    shown = capsys.readouterr()
    assert f"Did you mean {nearest}?" in shown.err and shown.err.count("\n") == 1 and not shown.out


@pytest.mark.parametrize("seed", ["-1", "1.5", "many"])
def test_a_seed_that_is_none_is_refused_with_its_value(seed, capsys):
    assert cli.main(["demo", f"--seed={seed}"]) == 2
    assert repr(seed) in capsys.readouterr().err


def test_an_error_of_the_user_is_one_line_without_a_traceback(tmp_path, capsys):
    occupied = tmp_path / "file"
    occupied.write_text("in the way")
    assert cli.main(["demo", "--out", str(occupied)]) == 1
    shown = capsys.readouterr()
    assert str(occupied) in shown.err and shown.err.count("\n") == 1 and not shown.out
    assert occupied.read_text() == "in the way"


def test_an_error_of_ours_is_not_hidden(monkeypatch):
    monkeypatch.setattr(demo, "show", lambda **given: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        cli.main(["demo"])


def test_arguments_reach_the_demonstration(monkeypatch):
    seen = []
    monkeypatch.setattr(demo, "show", lambda **given: seen.append(given))
    assert cli.main(["demo"]) == 0 and cli.main(["demo", "--seed", "7", "--out", "there"]) == 0
    assert seen == [{"seed": 0, "out": Path("knotwise-demo")}, {"seed": 7, "out": Path("there")}]


def test_the_command_line_starts_without_the_heavy_packages():
    heavy = ("numpy", "scipy", "sklearn", "matplotlib", "rich")
    source = str(Path(knotwise.__file__).parents[1])
    program = (
        f"import sys; sys.path.insert(0, {source!r}); from knotwise.cli import main; main([]); "
        f"print([name for name in {heavy!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


# -- the numbers --------------------------------------------------------------------------------------


def test_rows_are_those_of_the_public_api_and_of_the_formulas(comparison, by_hand):
    parts, models = by_hand
    X, y = parts.X_test, parts.y_test
    exact, exact_noise = models[0].predict_latent(X), models[0].parameters_["noise_variance"]
    assert [(row.model, row.n_knots) for row in comparison.rows] == [("full GP", 0), ("FIC", 4), ("VFE", 5)]
    for row, model in zip(comparison.rows, models, strict=True):
        f, noise = model.predict_latent(X), model.parameters_["noise_variance"]
        std = np.sqrt(f.variance + noise)

        def kl(v, w, m=f.mean):  # of two normal distributions with variances v and w
            return np.mean(v / w - 1 - np.log(v / w) + (exact.mean - m) ** 2 / w) / 2

        assert row.seconds > 0
        assert [row.log_evidence, row.srmse, row.mnlp, row.coverage] == pytest.approx(
            [
                model.log_evidence_,
                np.sqrt(np.mean((y - f.mean) ** 2)) / np.std(y, ddof=1),
                -np.median(stats.norm.logpdf(y, f.mean, std)),
                np.mean(np.abs(y - f.mean) <= stats.norm.ppf(0.975) * std),
            ],
            rel=1e-9,
        )
        assert row.aukl_latent == pytest.approx(kl(exact.variance, f.variance), rel=1e-9, abs=1e-14)
        both = exact.variance + exact_noise, f.variance + noise
        assert row.aukl_observation == pytest.approx(kl(*both), rel=1e-9, abs=1e-14)


def test_the_demonstration_compares_the_exact_gp_with_fic_and_vfe_at_the_announced_numbers_of_knots():
    assert [(c.approximation, c.n_knots) for c in demo.CANDIDATES] == [
        ("full", 0), ("fic", 13), ("fic", 50), ("vfe", 25), ("vfe", 50), ("vfe", "auto")
    ]  # fmt: skip


# -- the words ----------------------------------------------------------------------------------------


def test_the_table_shows_every_row_in_80_columns(comparison):
    text = printed(comparison)
    assert max(map(len, text.splitlines())) <= 80 and "…" not in text
    words = text.split()
    for row in comparison.rows:
        expected = {f"{row.seconds:.2f}", f"{row.log_evidence:.2f}", f"{row.srmse:.3f}", f"{row.mnlp:.3f}"}
        assert expected <= set(words)
    for row in comparison.rows[1:]:
        assert {str(row.n_knots), f"{row.aukl_latent:#.3g}", f"{row.aukl_observation:#.3g}"} <= set(words)
    title = " ".join(words)
    assert "392 training and 98 test rows" in title and f"seed {SEED}" in title and "thread" in title


def test_a_fit_that_did_not_converge_is_marked_and_explained(comparison):
    rows = (*comparison.rows[:2], replace(comparison.rows[2], converged=False))
    assert "VFE *" in printed(replace(comparison, rows=rows)) and "*" not in printed(
        replace(comparison, rows=tuple(replace(row, converged=True) for row in rows))
    )


def edited(comparison, fic_gain, fic_aukl, vfe_gain):
    """The comparison with other numbers, as distances from the exact GP."""
    exact, fic, vfe = comparison.rows
    return replace(
        comparison,
        rows=(
            exact,
            replace(fic, log_evidence=exact.log_evidence + fic_gain, aukl_latent=fic_aukl),
            replace(vfe, log_evidence=exact.log_evidence + vfe_gain, aukl_latent=0.25),
        ),
    )


def test_sentences_say_overfit_only_where_the_numbers_do(comparison):
    overfit, bound, _ = demo.conclude(edited(comparison, 12.5, 0.75, -3.25))
    assert "12.5 (K=4) nats above" in overfit and "although its latent AUKL is 0.750" in overfit
    assert "overfit" in overfit and "stays 3.25 (K=5) nats below" in bound and "0.250" in bound
    for fic_gain, fic_aukl in [(-12.5, 0.75), (12.5, 0.125)]:
        sober = demo.conclude(edited(comparison, fic_gain, fic_aukl, -3.25))[0]
        assert "overfit" not in sober and f"12.5 (K=4) nats {'above' if fic_gain > 0 else 'below'}" in sober
    assert "short of its best" in demo.conclude(edited(comparison, 12.5, 0.75, 3.25))[1]


def test_sentences_count_the_test_values_inside_their_intervals(comparison, by_hand):
    parts, models = by_hand
    last = demo.conclude(comparison)[-1]
    for model, name in zip(models, ("full GP", "FIC with 4 knots", "VFE with 5 knots"), strict=True):
        low, high = model.predict_interval(parts.X_test).T
        assert f"{np.sum((low <= parts.y_test) & (parts.y_test <= high))} ({name})" in last


# -- the picture and the whole ------------------------------------------------------------------------


@pytest.fixture
def known(comparison, monkeypatch):
    """The demonstration with a comparison that is already there, which still reports its progress."""

    def compare(seed, candidates, *, report):
        report("fitting something")
        return comparison

    monkeypatch.setattr(demo, "compare", compare)
    return comparison


def test_the_demonstration_leaves_a_png_and_an_svg_and_says_where(known, tmp_path):
    pytest.importorskip("matplotlib")
    file, out = io.StringIO(), tmp_path / "new" / "folder"
    assert demo.show(SEED, out, console=Console(file=file, width=80)) is known
    assert (out / "boston.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    assert ElementTree.parse(out / "boston.svg").getroot().tag.endswith("svg")
    lines = file.getvalue().splitlines()
    assert str(out / "boston.png") in lines[-1]
    assert "fitting" not in file.getvalue()  # progress is for terminals


def test_the_same_numbers_give_the_same_picture(comparison, tmp_path):
    pytest.importorskip("matplotlib")
    (tmp_path / "again").mkdir()
    first, second = demo.draw(comparison, tmp_path), demo.draw(comparison, tmp_path / "again")
    assert [file.read_bytes() for file in first] == [file.read_bytes() for file in second]


def test_a_terminal_sees_what_is_being_fitted(known, tmp_path):
    file = io.StringIO()
    demo.show(SEED, tmp_path, console=Console(file=file, width=80, force_terminal=True, force_interactive=True))
    assert "fitting something" in file.getvalue()


def test_without_matplotlib_everything_but_the_picture_is_there(known, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    file = io.StringIO()
    demo.show(SEED, tmp_path, console=Console(file=file, width=80))
    assert "pip install knotwise[plot]" in file.getvalue() and "VFE" in file.getvalue()
    assert not list(tmp_path.iterdir())


def test_a_picture_that_cannot_be_written_is_an_error_of_the_user(known, tmp_path, monkeypatch, capsys):
    def refuse(*_):
        raise PermissionError(13, "Permission denied", "boston.png")

    monkeypatch.setattr(demo, "draw", refuse)
    assert cli.main(["demo", "--out", str(tmp_path)]) == 1
    assert "Permission denied" in capsys.readouterr().err


def test_a_new_command_is_one_entry(monkeypatch, capsys):
    hello = cli.Command(
        "say hello", lambda parser: parser.add_argument("name"), lambda given: print("hello", given.name)
    )
    monkeypatch.setattr(cli, "COMMANDS", types.MappingProxyType({**cli.COMMANDS, "hello": hello}))
    assert cli.main(["hello", "knots"]) == 0
    assert capsys.readouterr().out == "hello knots\n"
