# SPDX-License-Identifier: Apache-2.0
"""The command line of tools/study error_rate."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from roofreport import duration, place
from roofreport.compare import recording
from roofreport.compare.command import parse
from roofreport.ending import ended
from roofreport.errors import UnusableInputError
from roofreport.stats import error_rates, sequential
from roofreport.stats.noise_model import simulated_pool
from roofreport.stats.pool import ARMS, Pool
from roofreport.terminal import show, tell
from roofreport.verbs.common import amount, count

# Small cases of every kind of bound, so that a process is short: arithmetic, memory, caches, whole models.
FILTER = (
    "^(matmul/impl:eager/dtype:(fp32|bf16|int8)/n:(256|512)"
    "|matmul/impl:eager/dtype:bf16/m:1/n:4096/k:4096"
    "|mlp/dtype:(fp32|bf16_autocast)/steps:2/layers:4/batch:256/d:256"
    "|(copy|read)/impl:stream/bytes:8388608/cache:warm)$"
)
ROUNDS = 124
FEWEST_CASES = 9
# Of a case: false verdicts at most, and calls of a injected slowdown at least, within the budget.
TARGETS = {0.0: 0.01, 0.03: 0.60, 0.05: 0.90}

_EPILOG = """
examples:
  tools/study error_rate simulate
  tools/study error_rate record --out=pool --minutes=60 --binary=build/release/bin/roofbench
  tools/study error_rate evaluate pool
"""


def _record(args: argparse.Namespace) -> int:
    command = parse(args.binary)
    flags = ["--check=off", *args.flags]
    seconds = args.minutes * 60
    plan = recording.read_plan(args.out)
    if plan is None:
        cases = list(command.with_flags(f"--benchmark_filter={args.filter}").cases().values())
        if len(cases) < FEWEST_CASES:
            raise UnusableInputError(f"--filter chooses {len(cases)} cases; at least {FEWEST_CASES} are wanted")
        plan = recording.make_plan(command, cases, flags, args.out, seconds, args.rounds)
        tell(f"{len(cases)} cases, {plan.max_time:g} s of samples each, {plan.rounds} rounds of {', '.join(ARMS)}")
    recording.record(command, plan, args.out, seconds, tell)
    return 0


def _line(name: str, values: Sequence[str]) -> str:
    return f"{name:<58}" + "".join(f"{value:>11}" for value in values)


def _percent(value: float) -> str:
    return "-" if np.isnan(value) else f"{100 * value:.1f} %"


def report(recorded: Pool, budget: float) -> bool:
    """Prints the rates; True if the targets are met."""
    rounds = recorded.log_times.shape[0]
    window = min(rounds, int(budget / (2 * recorded.process_seconds)))
    if window < sequential.MIN_PAIRS:
        raise UnusableInputError(
            f"{window} pairs: at least {sequential.MIN_PAIRS} are needed ({rounds} rounds,"
            f" {recorded.process_seconds:.1f} s a process)"
        )
    show(
        f"{rounds} rounds of {len(ARMS)} processes of {recorded.process_seconds:.1f} s; windows of {window} pairs"
        f" ({2 * window * recorded.process_seconds / 60:.1f} min), {rounds - window + 1} contiguous ones,"
        f" {rounds // window} of them disjoint\n"
    )
    found = [error_rates.rates(recorded, base, new, window) for base, new in error_rates.PAIRS]
    null = found[0]
    short = error_rates.rates(recorded, "base", "base2", sequential.MIN_PAIRS)
    blocks = error_rates.block_u_test(recorded, sequential.MIN_PAIRS)
    noise = error_rates.within_round_deviation(recorded)
    headers = ("pair sd", "false", "false@10", "U test", "U blocks", "3 % found", "5 % found", "same")
    show(_line("case", headers))
    for i, case in enumerate(recorded.cases):
        values = (noise, null.called, short.called, null.u_test, blocks, found[1].called, found[2].called, null.same)
        show(_line(case, [_percent(float(column[i])) for column in values]))
    values = (noise, null.called, short.called, null.u_test, blocks, found[1].called, found[2].called, null.same)
    show(_line("mean", [_percent(float(np.mean(column))) for column in values]))
    show(
        "\nfalse: SLOWER or FASTER of base against base; false@10: the same with 10 pairs; U test: compare.py's test on"
        "\nthe same medians (p < 0.05); U blocks: the same, 10 processes and then 10; found: SLOWER where a slowdown is"
        "\ninjected.\n"
    )
    met = True
    for one in found:
        target = TARGETS[one.injected]
        share = float(np.mean(one.called))
        fine = share <= target if one.injected == 0 else share >= target
        met &= fine
        what = "false verdicts" if one.injected == 0 else f"injected {100 * one.injected:.0f} %: SLOWER"
        show(
            f"{what}: {_percent(share)} of {one.windows} windows x {len(recorded.cases)} cases (worst case"
            f" {_percent(float(np.max(one.called) if one.injected == 0 else np.min(one.called)))}), target"
            f" {'at most' if one.injected == 0 else 'at least'} {_percent(target)}: {'met' if fine else 'NOT MET'};"
            f" {one.pairs_used:.0f} pairs on average"
        )
    return met


def _evaluate(args: argparse.Namespace) -> int:
    return 0 if report(recording.read(args.folder), args.budget) else 1


def _simulate(args: argparse.Namespace) -> int:
    """Disjoint windows of many pools."""
    window = int(args.budget / (2 * args.process_seconds))
    random = np.random.default_rng(args.seed)
    pools = [simulated_pool(random, window, args.process_seconds) for _ in range(args.pools)]
    show(f"{args.pools} windows of {window} pairs, {args.process_seconds:g} s a process")
    for base, new in error_rates.PAIRS:
        found = [error_rates.rates(one, base, new, window) for one in pools]
        called = np.mean([one.called for one in found], axis=0)
        injected = found[0].injected
        what = "false verdicts" if injected == 0 else f"injected {100 * injected:.0f} %: SLOWER"
        worst = np.max(called) if injected == 0 else np.min(called)
        u_test = float(np.mean([one.u_test for one in found]))
        pairs = np.mean([one.pairs_used for one in found])
        show(
            f"{what}: {_percent(float(np.mean(called)))} (worst case {_percent(float(worst))}), U test"
            f" {_percent(u_test)}, {pairs:.0f} pairs on average"
        )
    return 0


def parser() -> argparse.ArgumentParser:
    raw = argparse.RawDescriptionHelpFormatter
    top = argparse.ArgumentParser(
        prog="tools/study error_rate",
        description="How often the verdicts of tools/report abba are wrong on this machine.",
        epilog=_EPILOG,
        formatter_class=raw,
    )
    verbs = top.add_subparsers(required=True, metavar="VERB")
    record = verbs.add_parser("record", help="run the processes (resumes what was begun)")
    record.add_argument("--out", type=Path, required=True, metavar="DIR")
    record.add_argument("--minutes", type=amount, default=60.0, metavar="N", help="at most (60)")
    binary = str(place.root() / "build/release/bin/roofbench")
    record.add_argument("--binary", default=binary, help="a program, with flags")
    record.add_argument(
        "--filter", "--benchmark_filter", default=FILTER, metavar="REGEX", help="cases, as --benchmark_filter"
    )
    record.add_argument("--flag", action="append", default=[], dest="flags", help="for every process (repeatable)")
    record.add_argument("--rounds", type=count, default=ROUNDS, metavar="N", help=f"of four processes each ({ROUNDS})")
    record.set_defaults(run=_record)
    evaluate = verbs.add_parser("evaluate", help="verdicts on contiguous windows; exit status 1: targets not met")
    evaluate.add_argument("folder", type=Path, metavar="DIR")
    evaluate.add_argument("--budget", type=duration.seconds, default=600.0, metavar="TIME", help="of a window (10min)")
    evaluate.set_defaults(run=_evaluate)
    simulate = verbs.add_parser("simulate", help="the same on synthetic noise")
    simulate.add_argument("--pools", type=count, default=200)
    simulate.add_argument("--seed", type=int, default=1)
    simulate.add_argument("--budget", type=duration.seconds, default=600.0, metavar="TIME")
    simulate.add_argument("--process-seconds", type=amount, default=7.0)
    simulate.set_defaults(run=_simulate)
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    args = parser().parse_args(arguments)
    return ended("tools/study error_rate", lambda: int(args.run(args)))


if __name__ == "__main__":
    sys.exit(main())
