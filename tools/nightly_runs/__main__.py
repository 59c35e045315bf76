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
from roofreport.terminal import show, tell
from roofreport.text import printable
from roofreport.verbs.common import EXIT_ALARM, EXIT_OK, EXIT_UNUSABLE, append, day

from nights import config as configs
from nights.chain import ALARM, FAILED, Chain
from nights.child import EndedError
from nights.night import begin
from nights.summary import last_line, markdown

EPILOG = """
exit status: 0 all is well, 1 cases failed or something got worse, 2 a step failed (the last line names it).

examples:
  tools/nightly --example >night.toml     every setting with its default, to be changed
  tools/nightly night.toml

A run that was interrupted is gone on with by the next tools/nightly, and one that could not be added is added by it.
"""


@contextmanager
def _alone(nights: Path) -> Iterator[None]:
    """Two nights at once would measure each other."""
    try:
        nights.mkdir(parents=True, exist_ok=True)
        with (nights / "lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise UnusableInputError(f"{printable(str(nights))}: another night is running there") from None
            yield
    except OSError as error:
        raise UnusableInputError(f"{printable(str(error.filename or nights))}: {files.reason(error)}") from error


def _night(args: argparse.Namespace) -> int:
    config = configs.read(args.config)
    with _alone(config.nights):
        chain = Chain(config, begin(config.nights, args.date))
        try:
            chain.run()
        finally:
            if args.summary is not None:
                append(args.summary, markdown(chain.night, chain.outcomes))
    tell(f"tools/nightly: {last_line(chain.outcomes)}")
    states = {outcome.state for outcome in chain.outcomes}
    return EXIT_UNUSABLE if FAILED in states else EXIT_ALARM if ALARM in states else EXIT_OK


class _Example(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        show(Path(__file__).with_name("example.toml").read_text(encoding="utf-8"), end="")
        parser.exit()


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="tools/nightly",
        description="Builds, runs the suite, adds the run to a history, says what got slower, and writes the site.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("config", type=Path, metavar="CONFIG", help="a TOML file; places in it are relative to it")
    parser.add_argument("--date", type=day, help="the night's date instead of now, 2026-01-31 or with a time")
    parser.add_argument("--summary", type=Path, metavar="FILE", help="add what happened to this file, as markdown")
    parser.add_argument("--example", action=_Example, nargs=0, help="print a CONFIG with all settings, and end")
    args = parser.parse_args(arguments)
    try:
        return _night(args)
    except UnusableInputError as error:
        tell(f"tools/nightly: {error}")
        return EXIT_UNUSABLE
    except EndedError as error:
        tell("tools/nightly: interrupted; the next one goes on with this night")
        return 128 + error.number


if __name__ == "__main__":
    sys.exit(main())
