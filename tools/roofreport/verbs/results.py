# SPDX-License-Identifier: Apache-2.0
"""The verbs that read result files: table, summary, scaling, ranks, serving, params, roofline."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from roofreport.compare import axes
from roofreport.errors import UnusableInputError
from roofreport.io import case_name, gpt_fast
from roofreport.io.load import load, load_all
from roofreport.io.result import Case, Result, State, differences, over_processes
from roofreport.render import formats, ranks, result_tables, roofline, sweeps, training_table
from roofreport.stats import growth
from roofreport.stats import ranks as ranks_model
from roofreport.terminal import show
from roofreport.text import inert
from roofreport.verbs.common import (
    EXIT_OK,
    Verb,
    add_picture,
    append_lines,
    count,
    importing_matplotlib,
    notes,
    picture,
    section,
    warn,
    write,
)


def _add_results(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("results", nargs="+", metavar="RESULT", help="a --benchmark_out or --journal file")


def _add_result(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("result", type=Path, metavar="RESULT", help="a --benchmark_out or --journal file")
    parser.set_defaults(takes="takes one RESULT; ")


def _add_format(parser: argparse.ArgumentParser, text: str | None = None, more: Sequence[str] = ()) -> None:
    parser.add_argument("--format", choices=[*formats.FORMATS, *more], default="terminal", help=text)


def _loaded(path: Path) -> Result:
    result = load(path)
    notes([result])
    return result


_TABLE = """
examples:
  tools/report table run.json
  tools/report table run.json --columns=case,median,roof --format=markdown
  tools/report table run.json --baseline=impl:eager   speed-up over LibTorch
  tools/report table before.json after.json           the ratio of their times
  tools/report table run.json --training --format=latex   a row a size
  tools/report table run.json --format=csv --output=run.csv   s, FLOP/s, bytes/s
  tools/report table run.json --format=gpt_fast --output=all.csv   appends
"""


def _add_table(parser: argparse.ArgumentParser) -> None:
    columns = ", ".join([*result_tables.DEFAULT_COLUMNS[:3], formats.NOTES])
    _add_results(parser)
    _add_format(parser, more=["gpt_fast"])
    parser.add_argument("--columns", type=inert, help=f"comma-separated: {columns}, or any counter")
    parser.add_argument(
        "--baseline",
        type=inert,
        metavar="AXIS:VALUE",
        help="adds how much faster each case is than the same one with this",
    )
    parser.add_argument("--output", type=Path, metavar="FILE", help="instead of standard output")
    parser.add_argument(
        "--training", action="store_true", help="training steps as published: a row a size, phase by phase"
    )
    parser.add_argument(
        "--repeats", action="store_true", help="with --training: a row a repetition, and a row with their mean"
    )


def _gpt_fast(results: list[Result], output: Path | None) -> None:
    if output is None:
        show(gpt_fast.text(results), end="")
    else:
        append_lines(output, gpt_fast.text(results, gpt_fast.columns_of(output)))


def _table(args: argparse.Namespace) -> int:
    results = [load(Path(path)) for path in args.results]
    notes(results)
    if args.repeats and not args.training:
        raise UnusableInputError("--repeats needs --training")
    if args.training and (args.columns or args.baseline or args.format == "gpt_fast"):
        given = "--columns" if args.columns else "--baseline" if args.baseline else "--format=gpt_fast"
        raise UnusableInputError(f"--training has a table of its own: omit {given}")
    if args.format == "gpt_fast":
        _gpt_fast(results, args.output)
        return EXIT_OK
    for other in results[1:]:
        for difference in differences(results[0], other, with_host=True):
            warn(f"[1] and {other.name} are of different machines: {difference}")
    columns = [column.strip() for column in args.columns.split(",")] if args.columns else result_tables.DEFAULT_COLUMNS
    built = (
        training_table.published(results, repeats=args.repeats, deviations=args.format == "csv")
        if args.training
        else result_tables.result_table(results, columns, args.baseline)
    )
    text = formats.FORMATS[args.format](built)
    if args.output is None:
        show(text, end="")
    else:
        write(args.output, text)
    return EXIT_OK


_SUMMARY = """
The conclusions of a run that measured work in several implementations, precisions or sizes: the fastest
implementation and its share of the roof; the precision to serve in; the growth of time against the expected growth, and
the size up to which overhead dominates. Several files are several processes of one machine: medians over them.

examples:
  tools/report summary run.json
  tools/report summary results/local/repeat-20261121-120000/*.json
  tools/report scaling run.json --svg=scaling.svg     the growth, also a picture
"""


def _cases(results: list[Result]) -> list[Case]:
    """Each case once: repetitions within a process first, so that every process counts the same."""
    processes: dict[str, list[Case]] = {}
    for result in results:
        for name, case in result.merged().items():
            processes.setdefault(name, []).append(case)
    return [over_processes(cases) for cases in processes.values()]


def _sections(results: list[Result]) -> list[str]:
    """The parts that are not empty."""
    cases, contract = _cases(results), results[0].contract
    found = []
    if best := axes.winners(cases, contract):
        table = result_tables.winners_table(best)
        one = " (of one process)" if len(results) == 1 else ""
        found.append(section(f"Fastest implementation, and what it leaves of the roof{one}", table))
    if choices := axes.precisions(cases, contract):
        tables = [result_tables.precision_table(choice, contract) for choice in choices]
        found.append(section("Which precision to serve in", *tables))
    if series := growth.find(cases, contract):
        lines = map(result_tables.growth_line, series)
        found.append(section("Growth of time: fitted exponent (95 % interval) against the expected one", *lines))
    return found


def _summary(args: argparse.Namespace) -> int:
    results = load_all(args.results)
    notes(results)
    found = _sections(results)
    show("\n".join(found), end="")
    if not found and any(case.state is State.MEASURED for result in results for case in result.cases):
        warn(
            "nothing to compare: no work was measured in two implementations, in two precisions that generate tokens, "
            "or at three sizes; tools/report table shows the cases"
        )
    return EXIT_OK


_SCALING = """
examples:
  tools/report scaling run.json --svg=scaling.svg
  tools/report scaling run.json --axis=matmul.m --svg=m.svg   any numeric axis
  tools/report scaling run.json --points --format=csv         a row a point
"""


def _add_scaling(parser: argparse.ArgumentParser) -> None:
    _add_result(parser)
    parser.add_argument(
        "--axis", action="append", default=[], metavar="[FAMILY.]AXIS", help="only this one (repeatable)"
    )
    parser.add_argument(
        "--points", action="store_true", help="a row a point, with its times over those of the smallest of its sweep"
    )
    _add_format(parser, "of the points")
    add_picture(parser)


def _axes(result: Result) -> list[str]:
    """Those of its cases' families, and those that its names have."""
    found: dict[str, None] = {}
    for name, case in result.merged().items():
        family = result.contract.families.get(case_name.family(name))
        named = [part.partition(":")[0] for part in name.split("/")[1:] if ":" in part]
        found |= dict.fromkeys([*case.axes, *(axis.name for axis in (family.axes if family else ())), *named])
    return list(found)


def _scaling(args: argparse.Namespace) -> int:
    if args.format != "terminal" and not args.points:
        raise UnusableInputError("--format needs --points")
    result = _loaded(args.result)
    found = growth.find([*result.merged().values()], result.contract, args.axis)
    if not found:
        there = _axes(result)
        if unknown := [axis for axis in args.axis if axis.rpartition(".")[2] not in there]:
            raise UnusableInputError(f"{args.result}: no case has the axis {unknown[0]}; there are {', '.join(there)}")
        what = (
            f"{', '.join(args.axis)}: fewer than {growth.FEWEST_POINTS} measured points"
            if args.axis
            else f"no axis with an expected growth has {growth.FEWEST_POINTS} measured points; --axis=NAME takes any"
        )
        raise UnusableInputError(f"{args.result}: {what}")
    if args.points:
        show(formats.FORMATS[args.format](sweeps.sweep_table(found)), end="")
    else:
        for series in found:
            show(formats.prose(result_tables.growth_line(series)))
    picture(args, lambda: sweeps.growth_charts(found))
    return EXIT_OK


MEASURES_RANKS = "roofbench --ranks=1,2,4 --benchmark_filter='^mlp/.*/parallel:ddp_flat/'"
_RANKS = f"""
Weak scaling keeps the batch of a rank, strong scaling that of all ranks together. A model is fitted to the
communication that was measured, and predicts the step for more ranks.

examples:
  {MEASURES_RANKS} \\
      --benchmark_out=run.json
  tools/report ranks run.json --svg=ranks.svg
  tools/report ranks run.json --predict=8,64,1024 --format=csv
  tools/report ranks run.json --node=8
"""


def _numbers_of_ranks(text: str) -> list[int]:
    return sorted({count(part) for part in text.split(",")})


def _add_ranks(parser: argparse.ArgumentParser) -> None:
    _add_results(parser)
    parser.add_argument(
        "--predict",
        type=_numbers_of_ranks,
        default=[8, 64, 512, 4096],
        metavar="N[,N...]",
        help="numbers of ranks beyond those measured (default: 8,64,512,4096)",
    )
    parser.add_argument(
        "--node",
        type=count,
        default=ranks_model.MOST_RANKS,
        metavar="N",
        help="ranks of a node, whose links differ from those between nodes (default: all)",
    )
    _add_format(parser, "of the table")
    add_picture(parser)


def _ranks(args: argparse.Namespace) -> int:
    results = load_all(args.results)
    notes(results)
    found = ranks_model.find(_cases(results), results[0].contract, args.node)
    if not found:
        raise UnusableInputError(
            f"{', '.join(args.results)}: no step with `parallel` was measured with two numbers of ranks; "
            f"{MEASURES_RANKS} measures three"
        )
    show(formats.FORMATS[args.format](ranks.scaling_table(found, args.predict)), end="")
    picture(args, lambda: [ranks.scaling_chart(found, args.predict)])
    return EXIT_OK


MEASURES_BATCHES = (
    "roofbench --benchmark_filter='^decode/.*precision:bf16/.*depth:512$' --axis=decode.batch=1:64:x2"
    " --benchmark_out=run.json"
)
_ON_TWO_LINES = MEASURES_BATCHES.replace(" --axis", " \\\n      --axis")
_SERVING = f"""
examples:
  {_ON_TWO_LINES}
  tools/report serving run.json --svg=serving.svg
  tools/report serving run.json --format=csv

The knee is the batch with the most throughput for its latency (the ratio of both is largest there).
"""


def _add_serving(parser: argparse.ArgumentParser) -> None:
    _add_result(parser)
    _add_format(parser, "of the table")
    add_picture(parser)


def _serving(args: argparse.Namespace) -> int:
    result = _loaded(args.result)
    curves = axes.serving_curves(result.merged().values(), result.contract)
    if not curves:
        raise UnusableInputError(
            f"{args.result}: no generation was measured with {axes.FEWEST_POINTS} batches; "
            f"{MEASURES_BATCHES} measures seven"
        )
    show(formats.FORMATS[args.format](sweeps.serving_table(curves)), end="")
    picture(args, lambda: [sweeps.serving_chart(curves)])
    return EXIT_OK


_PARAMS = """
examples:
  tools/report params run.json
  tools/report params run.json --format=latex
"""


def _add_params(parser: argparse.ArgumentParser) -> None:
    _add_result(parser)
    _add_format(parser)


def _params(args: argparse.Namespace) -> int:
    show(formats.FORMATS[args.format](training_table.parameters(_loaded(args.result))), end="")
    return EXIT_OK


_ROOFLINE = """
examples:
  tools/report roofline run.json --html=roofline.html   opens without network
  tools/report roofline run.json --svg=roofline.svg
"""


def _add_roofline(parser: argparse.ArgumentParser) -> None:
    _add_result(parser)
    parser.add_argument("--html", type=Path, metavar="FILE", help="write a page: picture, table, facts")
    add_picture(parser)


def _roofline(args: argparse.Namespace) -> int:
    result = _loaded(args.result)
    if not (args.svg or args.html):
        raise UnusableInputError("nothing to write: give --html=FILE or --svg=FILE")
    if args.html is not None:
        with importing_matplotlib():
            from roofreport.render import page
        write(args.html, page.render(result))
    picture(args, lambda: [roofline.chart(result)])
    return EXIT_OK


VERBS = {
    "table": Verb(_TABLE, _add_table, _table),
    "summary": Verb(_SUMMARY, _add_results, _summary),
    "scaling": Verb(_SCALING, _add_scaling, _scaling),
    "ranks": Verb(_RANKS, _add_ranks, _ranks),
    "serving": Verb(_SERVING, _add_serving, _serving),
    "params": Verb(_PARAMS, _add_params, _params),
    "roofline": Verb(_ROOFLINE, _add_roofline, _roofline),
}
