# SPDX-License-Identifier: Apache-2.0
"""The command line of tools/nightly."""

from __future__ import annotations

import argparse
import fcntl
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from roofreport import files
from roofreport.errors import UnusableInputError
from roofreport.terminal import say, show
from roofreport.text import printable
from roofreport.verbs.common import EXIT_ALARM, EXIT_OK, EXIT_UNUSABLE, append_lines, day

from nightly_runs import config as configs
from nightly_runs.chain import ALARM, FAILED, OK, Chain, InterruptedRunError, StepOutcome
from nightly_runs.folders import NightlyRun, start

EPILOG = """
exit status: 0 success, 1 cases failed or something got worse, 2 a step failed (the last line names it).

examples:
  tools/nightly --example >night.toml     print every setting with its default
  tools/nightly night.toml

The next tools/nightly resumes an interrupted run, and adds results that could not be added.
"""
_LARGEST = 900_000  # a job summary of GitHub may have 1 MiB
_PLAIN = str.maketrans({character: f"\\{character}" for character in "\\`*_[]<>|#!&"})


def markdown(run: NightlyRun, outcomes: Sequence[StepOutcome]) -> str:
    """The steps, and the gate's findings."""
    failed = [outcome.step for outcome in outcomes if outcome.state == FAILED]
    lines = [f"## Nightly run of {run.started:%Y-%m-%d %H:%M} UTC", ""]
    if failed:
        lines += [f"**Failed: {', '.join(failed)}**", ""]
    lines += ["| step | | |", "| --- | --- | --- |"]
    for outcome in outcomes:
        lines.append(f"| {outcome.step} | {outcome.state} | {printable(outcome.reason, 500).translate(_PLAIN)} |")
    text = "\n".join(lines) + "\n"
    if any(outcome.step == "gate" and outcome.state != FAILED for outcome in outcomes):
        try:
            text += f"\n{run.findings('md').read_text(encoding='utf-8')[:_LARGEST]}\n"
        except OSError:
            return text
    return text


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Two nightly runs at once would disturb each other's measurements."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with files.followed(folder / "lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise UnusableInputError(f"{printable(str(folder))}: another nightly run is using it") from None
            yield
    except OSError as error:
        raise UnusableInputError(f"{printable(str(error.filename or folder))}: {files.reason(error)}") from error


def _run(args: argparse.Namespace) -> int:
    config = configs.read(args.config)
    with _locked(config.nights):
        chain = Chain(config, start(config.nights, args.date))
        try:
            chain.run()
        finally:
            if args.summary is not None:
                append_lines(args.summary, markdown(chain.current, chain.outcomes))
    worth_saying = [one for one in chain.outcomes if one.state != OK or one.reason]
    ok = [] if any(one.state != OK for one in worth_saying) else ["ok"]
    say("tools/nightly: " + "; ".join([*ok, *map(str, worth_saying)]))
    states = {outcome.state for outcome in chain.outcomes}
    return EXIT_UNUSABLE if FAILED in states else EXIT_ALARM if ALARM in states else EXIT_OK


class _Example(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        show(configs.EXAMPLE, end="")
        parser.exit()


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="tools/nightly",
        description="Builds, runs the suite, adds the results to a history, reports what got slower, writes the site.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("config", type=Path, metavar="CONFIG", help="a TOML file; paths in it are relative to it")
    parser.add_argument("--date", type=day, help="the date of the run instead of now, 2026-01-31 or with a time")
    parser.add_argument("--summary", type=Path, metavar="FILE", help="append a summary in markdown to this file")
    parser.add_argument("--example", action=_Example, nargs=0, help="print a CONFIG with all settings, and exit")
    args = parser.parse_args(arguments)
    try:
        return _run(args)
    except UnusableInputError as error:
        say(f"tools/nightly: {error}")
        return EXIT_UNUSABLE
    except InterruptedRunError as error:
        say("tools/nightly: interrupted; the next nightly run resumes this one")
        return 128 + error.number


if __name__ == "__main__":
    sys.exit(main())
