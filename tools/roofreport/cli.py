"""The command line of tools/report."""

from __future__ import annotations

import argparse
import hashlib
import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from roofreport import compare_py, duration, gpt_fast, hardware, judgement_table, metrics, table_formats, training_table
from roofreport import table as tables
from roofreport.chart import Chart
from roofreport.errors import UnusableInputError
from roofreport.load import load, load_all, without_copies
from roofreport.metrics import Better, Metric
from roofreport.result import Result
from roofreport.text import printable
from roofreport.verdict import ALARMS, Judgement, Verdict

EXIT_OK = 0
EXIT_ALARM = 1
EXIT_UNUSABLE = 2
_ROOT = Path(__file__).resolve().parents[2]

_VERDICTS = """
verdicts:
  SAME       no difference beyond what this comparison resolves
  FASTER     the new one takes less time than noise explains
  SLOWER     the new one takes more time than noise explains        (exit status 1)
  AMBIGUOUS  a difference that may be noise: abba tells
  MISSING    measured in the base only
  NEW        measured in the new results only
  FAILED     the case failed in the new results                     (exit status 1)
"""

_EPILOG = """
examples:
  tools/report table results/local/*.json
  tools/report compare before.json after.json
  tools/report abba build/release/bin/roofbench ../other/build/release/bin/roofbench --filter=matmul --budget=5min
  tools/report scaling run.json --svg=scaling.svg
  tools/report roofline run.json --html=roofline.html

exit status: 0 fine, 1 something is slower or failed, 2 unusable input
"""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        # The text may quote an argument with anything in it.
        self.exit(EXIT_UNUSABLE, f"{self.prog}: {printable(message, 500)}\n")


def _warn(text: str) -> None:
    print(f"note: {text}", file=sys.stderr)


def _write(path: Path, text: str, append: bool = False) -> None:
    try:
        with path.open("a" if append else "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise UnusableInputError(f"cannot write {printable(str(path))}: {error.strerror}") from error


def _notes(results: Sequence[Result]) -> None:
    for result in results:
        name = printable(str(result.path))
        for note in result.notes:
            _warn(f"{name}: {note}")
        if result.context.get("optimized") == "false":
            _warn(f"{name}: its build is not optimised, its times mean nothing")
        if not result.cases:
            _warn(f"{name}: holds no case")


def _table(args: argparse.Namespace) -> int:
    results = [load(path) for path in without_copies([Path(path) for path in args.results])]
    _notes(results)
    if args.format == "gpt_fast":
        for number, result in enumerate(results):
            fresh = number == 0 if args.output is None else not (args.output.exists() and args.output.stat().st_size)
            text = gpt_fast.text(result, with_header=fresh)
            if args.output is None:
                print(text, end="")
            else:
                _write(args.output, text, append=True)
        return EXIT_OK
    columns = [column.strip() for column in args.columns.split(",")] if args.columns else tables.DEFAULT_COLUMNS
    for other in results[1:]:
        for difference in hardware.differences(results[0], other, with_host=True):
            _warn(f"[1] and {printable(str(other.path))} are of different machines: {difference}")
    built = training_table.published(results[0]) if args.training else tables.build(results, columns)
    text = table_formats.FORMATS[args.format](built)
    if args.output is None:
        print(text, end="")
    else:
        _write(args.output, text)
    return EXIT_OK


def _params(args: argparse.Namespace) -> int:
    result = load(Path(args.result))
    _notes([result])
    print(table_formats.FORMATS[args.format](training_table.parameters(result)), end="")
    return EXIT_OK


def _exit_status(judgements: Sequence[Judgement]) -> int:
    return EXIT_ALARM if any(judgement.verdict in ALARMS for judgement in judgements) else EXIT_OK


def _metric(name: str) -> Metric:
    found = metrics.find(name)
    if found is None or found.better is Better.NEITHER:
        choices = ", ".join(row.name for row in (metrics.TIME, *metrics.COUNTERS) if row.better is not Better.NEITHER)
        why = "is neither better nor worse when it changes" if found else "is not in the table of metrics"
        raise UnusableInputError(f"--metric={printable(name, 60)}: {why}; there are {choices}")
    return found if found.name == name else Metric(name, found.unit, found.better, found.practical, found.noisy)


def _compare(args: argparse.Namespace) -> int:
    if args.files and (args.base or args.new):
        raise UnusableInputError("give two files, or --base and --new")
    if args.files and len(args.files) != 2:
        raise UnusableInputError(f"expected two files, got {len(args.files)}; several a side go after --base and --new")
    base_names, new_names = ([args.files[0]], [args.files[1]]) if args.files else (args.base, args.new)
    if not base_names or not new_names:
        raise UnusableInputError("nothing to compare: give two files, or --base FILE… --new FILE…")
    metric = _metric(args.metric)
    base, new = load_all(base_names), load_all(new_names)
    _notes([*base, *new])
    different = hardware.differences(base[0], new[0])
    if different and not args.cross_hardware:
        raise UnusableInputError(
            f"the two sides are of different hardware ({'; '.join(different)}); --cross-hardware compares them anyway"
        )
    for text in (*different, *hardware.other_settings(base[0], new[0])):
        _warn(f"base and new differ: {text}")
    from roofreport import comparison

    judgements = comparison.compare(base, new, metric)
    if not judgements:
        raise UnusableInputError(f"no case has {metric.name} on either side")
    print(table_formats.terminal(judgement_table.build(judgements, metric)), end="")
    processes = f"{len(base)} and {len(new)} processes" if len(base) + len(new) > 2 else "one process a side"
    print(f"\n{judgement_table.summary(judgements)} ({metric.name}, {processes}, 99 % intervals)")
    if any(judgement.verdict is Verdict.AMBIGUOUS for judgement in judgements):
        print("AMBIGUOUS cases need processes taken in turns: tools/report abba --help")
    command = compare_py.command(base, new)
    print(f"compare.py: {command or 'not installed (Debian: libbenchmark-tools)'}")
    return _exit_status(judgements)


def _add_metric(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--metric", default=metrics.TIME.name, help="time (default) or a counter with a direction")


def _state_folder(args: argparse.Namespace) -> Path:
    if args.state is not None:
        return Path(args.state)
    metric = [] if args.metric == metrics.TIME.name else [args.metric]
    text = "\0".join([args.base, args.new, args.filter or "", args.match or "", str(args.budget), *args.flags, *metric])
    return _ROOT / "results/local" / f"abba-{hashlib.sha256(text.encode()).hexdigest()[:10]}"


def _abba(args: argparse.Namespace) -> int:
    from roofreport import match
    from roofreport.abba import Abba, Options, say
    from roofreport.command import parse

    if args.new is None:
        if args.match is None:
            raise UnusableInputError("NEW is missing: a second program, or --match for two kinds of cases of one")
        args.new = args.base
    matched = None if args.match is None else match.parse(args.match)
    metric = _metric(args.metric)
    extra = [*args.flags, *([f"--benchmark_filter={args.filter}"] if args.filter else [])]
    folder = _state_folder(args)
    options = Options(
        parse(args.base, extra), parse(args.new, extra), args.budget, folder, args.max_time, args.pairs, matched, metric
    )
    if args.restart and folder.exists():
        for path in [*folder.glob("[0-9]*-*.json"), *folder.glob("state.json*")]:
            path.unlink()
    say(f"state: {folder}")
    try:
        judgements = Abba(options, say).run()
    except KeyboardInterrupt:
        say("interrupted; the same command goes on from here")
        return 128 + signal.SIGINT
    print(table_formats.terminal(judgement_table.build(judgements, metric)), end="")
    sides = f"; base {matched.base}, new {matched.new}" if matched else ""
    print(f"\n{judgement_table.summary(judgements)} ({metric.name}, A B B A, 95 % intervals{sides})")
    return _exit_status(judgements)


def _repeat(args: argparse.Namespace) -> int:
    from roofreport import repeat
    from roofreport.abba import say
    from roofreport.command import parse

    extra = [*args.flags, *([f"--benchmark_filter={args.filter}"] if args.filter else [])]
    command = parse(args.program, extra)
    folder = args.keep or _ROOT / "results/local" / f"repeat-{time.strftime('%Y%m%d-%H%M%S')}"
    try:
        results = repeat.run_all(command, args.processes, folder, say)
    except KeyboardInterrupt:
        say(f"interrupted; what was measured is in {folder}")
        return 128 + signal.SIGINT
    print(table_formats.terminal(repeat.summarise(results)), end="")
    return EXIT_OK


def _spread(args: argparse.Namespace) -> int:
    from roofreport import repeat

    results = load_all(args.results)
    _notes(results)
    print(table_formats.terminal(repeat.summarise(results)), end="")
    return EXIT_OK


def _pictures(args: argparse.Namespace, draw: Sequence[Chart]) -> None:
    """Writes what was asked for as SVG and PNG."""
    from roofreport import png, svg

    columns = 1 if len(draw) == 1 else 2
    if args.svg is not None:
        _write(args.svg, svg.document(draw, columns))
    if args.png is not None:
        try:
            png.write(args.png, draw, columns)
        except OSError as error:
            raise UnusableInputError(f"cannot write {printable(str(args.png))}: {error.strerror}") from error


def _scaling(args: argparse.Namespace) -> int:
    from roofreport import scaling

    result = load(Path(args.result))
    _notes([result])
    found = scaling.series_of(result, args.axis)
    if not found:
        raise UnusableInputError(
            f"{printable(args.result)}: no axis with a known law has {scaling.FEWEST_POINTS} measured points"
            if not args.axis
            else f"{printable(args.result)}: {', '.join(map(printable, args.axis))}: fewer than"
            f" {scaling.FEWEST_POINTS} measured points"
        )
    for series in found:
        print(scaling.describe(series))
    _pictures(args, scaling.charts(found))
    return EXIT_OK


def _roofline(args: argparse.Namespace) -> int:
    from roofreport import page, roofline

    result = load(Path(args.result))
    _notes([result])
    if not (args.svg or args.png or args.html):
        raise UnusableInputError("nothing to write: give --html=FILE, --svg=FILE or --png=FILE")
    if args.html is not None:
        _write(args.html, page.render(result))
    if args.svg or args.png:
        _pictures(args, [roofline.chart(result)])
    return EXIT_OK


def _add_pictures(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--svg", type=Path, metavar="FILE", help="write the picture as SVG (light and dark)")
    parser.add_argument("--png", type=Path, metavar="FILE", help="write the picture as PNG")


def parser() -> argparse.ArgumentParser:
    raw = argparse.RawDescriptionHelpFormatter
    top = _Parser(
        prog="tools/report", description="Reads the results of roofbench.", epilog=_EPILOG, formatter_class=raw
    )
    verbs = top.add_subparsers(dest="verb", required=True, metavar="VERB")

    def verb(name: str, text: str, epilog: str) -> argparse.ArgumentParser:
        return verbs.add_parser(name, help=text, description=text, epilog=epilog, formatter_class=raw)

    table = verb(
        "table",
        "one or more results as a table",
        """
examples:
  tools/report table run.json
  tools/report table run.json --columns=case,median,roof,forward_ms,backward_ms --format=markdown
  tools/report table before.json after.json                      adds the ratio of their times
  tools/report table run.json --training --format=markdown       a row a size: forward, backward, optimizer
  tools/report table run.json --format=csv --output=run.csv      numbers in seconds, FLOP/s and bytes/s
  tools/report table run.json --format=gpt_fast --output=all.csv appends in gpt-fast's columns
""",
    )
    table.add_argument("results", nargs="+", metavar="RESULT", help="a --benchmark_out or --journal file")
    table.add_argument("--format", choices=[*table_formats.FORMATS, "gpt_fast"], default="terminal")
    table.add_argument("--columns", help=f"comma-separated: {', '.join(tables.DEFAULT_COLUMNS[:3])}, or any counter")
    table.add_argument("--output", type=Path, metavar="FILE", help="instead of standard output")
    table.add_argument(
        "--training", action="store_true", help="training steps as published: a row a size, phase by phase"
    )
    table.set_defaults(run=_table)

    params = verb(
        "params",
        "parameters of models by component, and the growth of time against them",
        """
  tools/report params run.json
  tools/report params run.json --format=latex
""",
    )
    params.add_argument("result", metavar="RESULT", help="a --benchmark_out or --journal file")
    params.add_argument("--format", choices=[*table_formats.FORMATS], default="terminal")
    params.set_defaults(run=_params)

    compare = verb(
        "compare",
        "verdicts on results that are there already",
        _VERDICTS
        + """
The sample is the process, so give several files a side. With one process a side only large changes (a quarter and more)
are called. For small ones take both sides in turns: tools/report abba.

examples:
  tools/report compare before.json after.json
  tools/report compare --base before-*.json --new after-*.json
  tools/report compare before.json after.json --metric=peak_mem
  tools/report compare laptop.json server.json --cross-hardware
""",
    )
    compare.add_argument("files", nargs="*", metavar="FILE", help="base and new")
    compare.add_argument("--base", nargs="+", default=[], metavar="FILE", help="results of the base")
    compare.add_argument("--new", nargs="+", default=[], metavar="FILE", help="results of what is compared with it")
    _add_metric(compare)
    compare.add_argument("--cross-hardware", action="store_true", help="compare results of different hardware")
    compare.set_defaults(run=_compare)

    abba = verb(
        "abba",
        "runs two programs, one with two sets of flags, or two implementations of one, in turns",
        _VERDICTS
        + """
Fresh processes in the order A B B A …, at least 10 pairs, until every case is decided or the budget is used up.
Per case: Wilcoxon's signed-rank test over the pairs at 1 %, spent over four looks; over the cases: Benjamini and
Hochberg at 5 %; and a floor from what neighbouring processes of one side differ by. Decided cases are left out of
further processes. An interrupted comparison goes on where it stopped when the command is repeated.

examples:
  tools/report abba old/roofbench new/roofbench --filter='matmul/.*bf16'
  tools/report abba 'bin/roofbench --threads=1' 'bin/roofbench --threads=2' --filter=mlp --budget=10min
  tools/report abba old/roofbench new/roofbench --filter=copy --flag=--check=off --state=/tmp/copy
  tools/report abba bin/roofbench --match=impl:eager=impl:native --filter=softmax    is ours faster than theirs?
  tools/report abba bin/roofbench --match=impl:fused=impl:native --filter=adamw --metric=roof

Where a process's memory is now slow, now fast, times scatter and little is called; the share of the roof that is
measured within the case (--metric=roof) does not follow the memory, and higher is FASTER.
""",
    )
    abba.add_argument("base", metavar="BASE", help="a program, with flags if quoted")
    abba.add_argument("new", metavar="NEW", nargs="?", help="what is compared with it (with --match: default BASE)")
    abba.add_argument(
        "--match",
        metavar="AXIS:X=AXIS:Y",
        help="compare BASE's cases that have the first with NEW's that differ from them in the second alone",
    )
    abba.add_argument("--filter", metavar="REGEX", help="cases, as --benchmark_filter")
    _add_metric(abba)
    abba.add_argument("--budget", type=duration.seconds, default=300.0, metavar="TIME", help="5min (default), 90s, 1h")
    abba.add_argument("--flag", action="append", default=[], dest="flags", metavar="FLAG", help="for both (repeatable)")
    abba.add_argument(
        "--max-time", type=float, metavar="S", help="seconds of samples a case (default: fits the budget)"
    )
    abba.add_argument("--pairs", type=int, metavar="N", help="most pairs (default: as the budget allows)")
    abba.add_argument("--state", metavar="DIR", help="where results and progress are kept (default: results/local/…)")
    abba.add_argument("--restart", action="store_true", help="begin anew")
    abba.set_defaults(run=_abba)

    repeat = verb(
        "repeat",
        "runs one program several times: what its cases reach",
        """
Fresh processes one after another. Per case: the medians of time and roof fraction over the processes, the least and the
most, and the same apart for slow and fast memory where it had both; then the fastest implementation of each piece of
work, and in how many processes it was.

examples:
  tools/report repeat build/release/bin/roofbench --filter='norm/.*d:4096' --processes=5
  tools/report repeat 'chrt --fifo 1 bin/roofbench' --filter=gemv --flag=--max_time=0.5
""",
    )
    repeat.add_argument("program", metavar="PROGRAM", help="a program, with flags if quoted")
    repeat.add_argument("--filter", metavar="REGEX", help="cases, as --benchmark_filter")
    repeat.add_argument("--processes", type=int, default=5, metavar="N", help="how many (default: 5)")
    repeat.add_argument("--flag", action="append", default=[], dest="flags", metavar="FLAG", help="repeatable")
    repeat.add_argument("--keep", type=Path, metavar="DIR", help="where results go (default: results/local/…)")
    repeat.set_defaults(run=_repeat)

    spread = verb(
        "spread",
        "what repeat prints, from results that are there already",
        """
examples:
  tools/report spread results/local/repeat-20261121-120000/*.json
""",
    )
    spread.add_argument("results", nargs="+", metavar="RESULT", help="one file a process")
    spread.set_defaults(run=_spread)

    scaling = verb(
        "scaling",
        "how time grows with size, against the expected law",
        """
examples:
  tools/report scaling run.json --svg=scaling.svg
  tools/report scaling run.json --axis=matmul.m --png=m.png     an axis without a known law
""",
    )
    scaling.add_argument("result", metavar="RESULT")
    scaling.add_argument(
        "--axis", action="append", default=[], metavar="[FAMILY.]AXIS", help="only this one (repeatable)"
    )
    _add_pictures(scaling)
    scaling.set_defaults(run=_scaling)

    roofline = verb(
        "roofline",
        "the run's cases under the measured and the datasheet roofs",
        """
examples:
  tools/report roofline run.json --html=roofline.html            one file, opens without network
  tools/report roofline run.json --svg=roofline.svg --png=roofline.png
""",
    )
    roofline.add_argument("result", metavar="RESULT")
    roofline.add_argument("--html", type=Path, metavar="FILE", help="write a page: picture, table, facts")
    _add_pictures(roofline)
    roofline.set_defaults(run=_roofline)
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    args = parser().parse_args(arguments)
    try:
        status = args.run(args)
        sys.stdout.flush()
        return int(status)
    except UnusableInputError as error:
        print(f"tools/report: {error}", file=sys.stderr)
        return EXIT_UNUSABLE
    except BrokenPipeError:
        # The reader (head, a pager) has had enough. Python would complain when it flushes at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
