"""Commands about the paper: `reproduce`, its quick form `demo`, and `list`."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

from knotwise.cli.command import Command, count, explain_interruption

__all__ = ["COMMANDS"]


def add_reproduce_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("names", nargs="*", default=["all"], help="experiments, as `knotwise list` shows them; or all")
    parser.add_argument("--quick", action="store_true", help="one seed of every method, and of `short` one data set")
    parser.add_argument(
        "--seeds", type=count, help="seeds of every method (default: 10 of ours, 3 of the published; 3 of `short`)"
    )
    _add_shared_arguments(parser, "knotwise-paper")


def add_demo_arguments(parser: ArgumentParser) -> None:
    _add_shared_arguments(parser, "knotwise-demo")


def _add_shared_arguments(parser: ArgumentParser, out: str) -> None:
    parser.add_argument("--out", type=Path, default=Path(out), help="folder of rows and report (default %(default)s)")
    parser.add_argument("--jobs", type=count, help="processes at a time (default: one for each core)")
    parser.add_argument("--fresh", action="store_true", help="start anew; else what the folder has is not run again")


def run_reproduce(arguments: Namespace) -> None:
    from knotwise_reproduction.reproduce import reproduce

    with explain_interruption(lambda: what_is_kept(arguments)):
        reproduce(
            arguments.names,
            quick=arguments.quick,
            seeds=arguments.seeds,
            out=arguments.out,
            jobs=arguments.jobs,
            fresh=arguments.fresh,
        )


def run_demo(arguments: Namespace) -> None:
    from knotwise_reproduction.reproduce import reproduce

    with explain_interruption(lambda: what_is_kept(arguments)):
        reproduce(["all"], quick=True, out=arguments.out, jobs=arguments.jobs, fresh=arguments.fresh)


def what_is_kept(arguments: Namespace) -> str:
    """What an interrupted reproduction leaves, and how to go on."""
    from knotwise_reproduction.folder import MARKER, ROWS

    marker, rows = arguments.out / MARKER, arguments.out / ROWS
    if not marker.is_file() or not rows.is_file() or not rows.stat().st_size:
        return "No fit was finished."
    again = "the same command without --fresh" if arguments.fresh else "the same command"
    return f"Finished fits are kept in {str(arguments.out)!r}: {again} goes on from there."


def run_list(arguments: Namespace) -> None:
    from knotwise_reproduction.experiments import EXPERIMENTS

    for name, experiment in EXPERIMENTS.items():
        print(f"{name:<11} {experiment.title}")
        print(f"{'':<11} {experiment.place}")
        if experiment.cases != ("",):
            print(f"{'':<11} data: {', '.join(experiment.cases)}")
        for setting, methods in experiment.methods.items():
            print(f"{'':<11} {setting}: {', '.join(method.name for method in methods)}")


COMMANDS = {
    "reproduce": Command(
        "run the paper's experiments and set our numbers beside the paper's",
        add_reproduce_arguments,
        run_reproduce,
        """examples:
  knotwise reproduce boston banana --quick
  knotwise reproduce all --out paper --jobs 2""",
    ),
    "list": Command(
        "show the paper's experiments, and what goes beyond them",
        lambda parser: None,
        run_list,
        """examples:
  knotwise list""",
    ),
    "demo": Command(
        "run the quick form of the paper's experiments: reproduce all --quick",
        add_demo_arguments,
        run_demo,
        """examples:
  knotwise demo
  knotwise demo --out demo --fresh""",
    ),
}
