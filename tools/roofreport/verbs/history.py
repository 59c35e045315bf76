# SPDX-License-Identifier: Apache-2.0
"""The verbs history and site: keeps runs in a database, shows them, and makes pages of them."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from roofreport import units
from roofreport.errors import UnusableInputError
from roofreport.files import replacing, writing_to
from roofreport.history import export
from roofreport.io.contract import TIME, packaged
from roofreport.io.load import STARTED, expand
from roofreport.project_folder import REPORT, reporter
from roofreport.terminal import say, show
from roofreport.text import inert, printable, shortened
from roofreport.verbs.common import (
    EXIT_ALARM,
    EXIT_OK,
    Verb,
    add_metric,
    add_store,
    count,
    day,
    metric_of,
    refuse_unmeasured,
    warn,
)

if TYPE_CHECKING:
    from roofreport.history.records import Added, Run, Series
    from roofreport.history.store import Store

_HISTORY = """
examples:
  tools/report history add results/local/*.jsonl
  tools/report history list
  tools/report history show matmul/impl:eager/dtype:bf16/n:1024 --metric=roof
  tools/report history export --format=parquet --output=history.parquet
  tools/report history prune --before=2025-01-01
  tools/report history verify

A record is a journal; JSON of Google Benchmark is turned into one. Adding a run again changes nothing. tools/report
history ACTION --help lists the flags of each.
"""


def _open(args: argparse.Namespace, create: bool = False, where: str = "") -> Store:
    from roofreport.history.store import open_store

    return open_store(where or args.store, create=create)


def _show_added(added: Added, path: Path, first: bool, started: datetime | None) -> None:
    run = added.run
    name = printable(str(path))
    about = f"run {run.id}, {units.counted(added.cases, 'case')}, {run.machine.label}, {run.toolchain.label}"
    if added.is_new:
        show(f"{name}: {about}")
        if STARTED not in run.context:
            warn(f"{name}: does not say when it began; it is as old as its file, and its JSON would be another run")
    elif added.completed:
        show(f"{name}: run {run.id} existed; this record completes it")
    elif started in (None, run.started):
        show(f"{name}: run {run.id} is there already")
    else:
        raise UnusableInputError(
            f"{name}: run {run.id} is there already, of {run.started:%Y-%m-%d}; {reporter()} history prune"
            f" --run={run.id} removes it, so that it can be added with another --started"
        )
    if added.new_machine and not first:
        warn(f"{run.machine.label} is a machine that was not seen before: it begins its own series")
    elif added.new_toolchain and not first:
        warn(f"{run.toolchain.label} was not seen before: it begins new series")


def _add(args: argparse.Namespace) -> int:
    from roofreport.history.record import of_file

    # To what a record says, the JSON of its run adds nothing.
    paths = sorted(expand(args.results), key=lambda path: path.suffix != ".jsonl")
    failed: list[str] = []
    empty = True
    with ExitStack() as stack:
        store: Store | None = None
        for path in paths:
            try:
                record = of_file(path)
                # Made for a record alone: of a wrong path there would be an empty history, and an empty page of it.
                if store is None:
                    store = stack.enter_context(_open(args, create=True))
                    empty = not store.runs()
                _show_added(store.add(record, args.started), path, empty, args.started)
                empty = False
            except UnusableInputError as error:
                failed.append(str(error))
    if failed:
        for line in failed[:-1]:
            say(f"{REPORT}: {line}")
        raise UnusableInputError(failed[-1])
    return EXIT_OK


def _refuse_unknown_machine(store: Store, text: str) -> None:
    labels = dict.fromkeys(run.machine.label for run in store.runs())
    if text and not any(text in label for label in labels):
        raise UnusableInputError(
            f"--machine={text}: no machine has this in its name; there are {shortened('; '.join(labels), 900)}"
        )


def _list(args: argparse.Namespace) -> int:
    from roofreport.render import formats, history

    with _open(args) as store:
        _refuse_unknown_machine(store, args.machine)
        if args.series:
            chosen = [one for one in store.series() if args.machine in one.machine.label]
            show(formats.terminal(history.series_table(chosen)), end="")
        else:
            runs = [run for run in store.runs() if args.machine in run.machine.label]
            show(formats.terminal(history.run_table(runs)), end="")
    return EXIT_OK


def _chosen(store: Store, metric: str, wanted: str) -> list[Series]:
    found = store.series(metric)
    exact = [one for one in found if wanted in (one.key, one.case)]
    return exact or store.series(metric, wanted)


def _show(args: argparse.Namespace) -> int:
    from roofreport.render import formats, history

    metric = metric_of(args.metric, packaged())
    with _open(args) as store:
        # Measured cases may all lack the metric: a busy machine leaves none their share of the roof.
        chosen = _chosen(store, args.metric, args.series) or [
            replace(one, metric=args.metric) for one in _chosen(store, TIME.name, args.series)
        ]
        if not chosen:
            raise UnusableInputError(
                f"{args.series}: no case has such a name; {reporter()} history list --series shows which there are"
            )
        for one in chosen:
            readings = store.readings(one)[-(args.last or 0) :]
            show(one.case)
            show(f"{one.key}: {one.machine.label}; {one.toolchain.label}")
            show(formats.terminal(history.readings_table(one, readings, metric)))
    return EXIT_OK


def _prune(args: argparse.Namespace) -> int:
    from roofreport.history.keeping import prune

    with _open(args) as store:
        chosen: list[Run]
        if args.runs:
            chosen = [store.run(number) for number in dict.fromkeys(args.runs)]
        else:
            chosen = [run for run in store.runs() if run.started < args.before]
        for run in chosen:
            show(f"run {run.id} of {run.started:%Y-%m-%d %H:%M}, {run.machine.label}")
        if not args.dry_run:
            prune(store, chosen)
        left = "would be" if args.dry_run else units.are(len(chosen))
        show(f"{units.counted(len(chosen), 'run')} {left} gone")
    return EXIT_OK


def _export(args: argparse.Namespace) -> int:
    if args.output is None and args.format == export.BINARY:
        raise UnusableInputError(f"--format={export.BINARY} is not text: name a file with --output")
    if args.last and args.format not in export.OF_MANY_RUNS:
        raise UnusableInputError(f"--format={args.format} shows only the newest run: omit --last")
    with _open(args) as store:
        _refuse_unknown_machine(store, args.machine)
        data = export.FORMATS[args.format](store, export.Choice(args.last, args.machine))
    if args.output is None:
        show(data.decode(), end="")
    else:
        with writing_to(args.output), replacing(args.output) as file:
            file.write(data)
    return EXIT_OK


def _verify(args: argparse.Namespace) -> int:
    from roofreport.history.keeping import faults

    with _open(args) as store:
        found = list(faults(store))
        for line in found:
            show(shortened(line, 500))
        runs = store.runs()
    show(f"{units.counted(len(runs), 'run')}, {units.counted(len(found), 'fault')}")
    return EXIT_ALARM if found else EXIT_OK


def _migrate(args: argparse.Namespace) -> int:
    from roofreport.history.keeping import copy

    with _open(args) as store, _open(args, create=True, where=args.to) as target:
        new = copy(store, target)
        show(f"{new} of {units.counted(len(store.runs()), 'run')} {units.are(new)} new there")
    return EXIT_OK


def _add_machine(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--machine", default="", metavar="TEXT", help="of machines with this in their name alone")


def _add_history(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")

    def action(name: str, text: str, act: Callable[[argparse.Namespace], int]) -> argparse.ArgumentParser:
        made = actions.add_parser(name, help=text, description=text)
        add_store(made)
        made.set_defaults(act=act)
        return made

    add = action("add", "adds records, or JSON of them; makes the history where there is none", _add)
    add.add_argument("results", nargs="+", metavar="RESULT", help="a --journal or --benchmark_out file")
    add.add_argument("--started", type=day, metavar="DATE", help="when it began, instead of what the file says")

    listed = action("list", "the runs, or the series", _list)
    listed.add_argument("--series", action="store_true", help="the series and their keys instead of the runs")
    _add_machine(listed)

    shown = action("show", "a series, run by run", _show)
    shown.add_argument(
        "series", type=inert, metavar="SERIES", help="a key from list --series, a case, or a pattern with * and ?"
    )
    add_metric(shown)
    shown.add_argument("--last", type=count, metavar="N", help="the newest N runs alone")

    pruned = action("prune", "drops old runs", _prune)
    chosen = pruned.add_mutually_exclusive_group(required=True)
    chosen.add_argument("--before", type=day, metavar="DATE", help="every run that began before it")
    chosen.add_argument(
        "--run", type=count, action="append", dest="runs", metavar="N", help="this run; may be given again"
    )
    pruned.add_argument("--dry-run", action="store_true", help="only list them")

    formats = ", ".join(export.FORMATS)
    exported = action("export", "writes it in the format of another tool", _export)
    exported.add_argument("--format", choices=list(export.FORMATS), required=True, metavar="FORMAT", help=formats)
    exported.add_argument("--output", type=Path, metavar="FILE", help="instead of standard output")
    _add_machine(exported)
    exported.add_argument(
        "--last", type=count, metavar="N", help="the newest N runs of each machine and toolchain alone"
    )

    action("verify", "checks that everything that was added is still there, unchanged", _verify)

    migrated = action("migrate", "adds everything to another history", _migrate)
    migrated.add_argument("--to", required=True, metavar="WHERE", help="the other history")


_SITE = """
examples:
  tools/report site --out=site                  then open site/index.html
  tools/report site --out=site --metric=time --metric=peak_mem
  tools/report site --out=site --repository=.   adds the commits between nights
"""


def _add_site(parser: argparse.ArgumentParser) -> None:
    add_store(parser)
    parser.add_argument("--out", required=True, type=Path, metavar="FOLDER", help="replaced when the site is whole")
    parser.add_argument(
        "--metric",
        type=inert,
        action="append",
        metavar="METRIC",
        help="time (default) or a counter with a direction; several",
    )
    parser.add_argument(
        "--title", type=inert, default="roofbench", metavar="TEXT", help="the name of the project: roofbench"
    )
    parser.add_argument("--repository", type=Path, metavar="FOLDER", help="the git repository that revisions are of")


def _site(args: argparse.Namespace) -> int:
    from roofreport.site.build import build

    metrics = list(dict.fromkeys(args.metric or [TIME.name]))
    with _open(args) as store:
        for name in metrics:
            metric_of(name, packaged())
            refuse_unmeasured(store, name)
    built = build(args.store, args.out, metrics, args.repository, args.title)
    size = f"{units.counted(built.runs, 'run')}, {built.bytes / 1e6:.1f} MB"
    say(f"{built.series} series of {size}: {printable(str(args.out / 'index.html'))}")
    return EXIT_OK


VERBS = {
    "history": Verb(_HISTORY, _add_history, lambda args: int(args.act(args))),
    "site": Verb(_SITE, _add_site, _site),
}
