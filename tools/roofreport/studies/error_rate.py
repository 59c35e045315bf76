# SPDX-License-Identifier: Apache-2.0
"""tools/error_rate: records a pool of processes, and counts the wrong verdicts in contiguous windows of it."""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from roofreport import project_folder, units
from roofreport.compare import saved_state
from roofreport.compare.command import Command, Finished, parse, run, sampling_flags
from roofreport.errors import UnusableInputError
from roofreport.exit_status import ended
from roofreport.gate.series_state import MAD_SCALE
from roofreport.io.load import load
from roofreport.io.result import State
from roofreport.stats import sequential
from roofreport.stats.sequential import Trial
from roofreport.stats.verdict import Verdict
from roofreport.studies.noise import ARMS, INJECTED, Floats, Pool, order_of, simulated_pool
from roofreport.terminal import say, show
from roofreport.verbs.common import add_budget, add_flag, amount, count

_DELAY_FLAG = "--inject_delay"
_PLAN = "plan.json"
_ATTEMPTS = 3
_SHORTEST_SAMPLING = 0.02
_LONGEST_SAMPLING = 0.4
# Roof probes take about a quarter of the time of adjacent samples, and the warm-up takes some as well.
_SAMPLING_COST = 1.6


@dataclass
class Plan:
    """The plan of a recording, which is fixed at its start."""

    fingerprint: str
    cases: list[str]
    flags: list[str]
    max_time: float
    rounds: int


def _file(folder: Path, round_: int, arm: str) -> Path:
    return folder / f"{round_:04d}-{arm}.json"


def _process(command: Command, plan: Plan, arm: str, out: Path) -> Finished:
    flags = [*sampling_flags(plan.cases, plan.max_time), *plan.flags]
    if INJECTED[arm] > 0:
        flags.append(f"{_DELAY_FLAG}={INJECTED[arm]:g}")
    finished = Finished(None, 0.0)
    for _ in range(_ATTEMPTS):
        finished = run(command.with_flags(*flags), out)
        if finished.result is not None and all(case.state is State.MEASURED for case in finished.result.cases):
            return finished
        out.unlink(missing_ok=True)
    raise UnusableInputError(f"{arm}: {finished.how or 'a case was skipped or failed'} ({_ATTEMPTS} times)")


def make_plan(command: Command, cases: list[str], flags: list[str], folder: Path, seconds: float, rounds: int) -> Plan:
    """A plan with samples as long as the time allows. Runs a process first, for its cost in addition to its samples."""
    plan = Plan(command.fingerprint(), cases, flags, _SHORTEST_SAMPLING, rounds)
    folder.mkdir(parents=True, exist_ok=True)
    pilot = _process(command, plan, "slow5", folder / "pilot.json")
    share = seconds / (rounds * len(ARMS))
    if pilot.seconds > share:
        raise UnusableInputError(
            f"a process of {len(cases)} cases takes {pilot.seconds:.1f} s, and {rounds} rounds of {len(ARMS)} in"
            f" {units.clock(seconds)} leave {share:.1f} s for each; name fewer or smaller cases with --filter"
        )
    spare = (share - pilot.seconds) / (_SAMPLING_COST * len(cases))
    plan.max_time = round(min(_LONGEST_SAMPLING, _SHORTEST_SAMPLING + spare), 3)
    saved_state.save(folder / _PLAN, plan)
    return plan


def record_pool(command: Command, plan: Plan, folder: Path, seconds: float, say: Callable[[str], None]) -> None:
    """Continues until the plan's rounds or the seconds are used up. Existing files are kept."""
    if plan.fingerprint != command.fingerprint():
        raise UnusableInputError(f"{folder} was begun with another binary or other flags")
    start = time.monotonic()
    for round_ in range(plan.rounds):
        if all(_file(folder, round_, arm).exists() for arm in ARMS):
            continue
        if time.monotonic() - start > seconds:
            say("the time is used up; repeat the command to continue")
            return
        # A round is not interrupted; otherwise the processes of a pair would be minutes apart.
        begun = time.monotonic()
        for arm in order_of(round_):
            _process(command, plan, arm, _file(folder, round_, arm))
        used = time.monotonic() - begun
        say(f"round {round_ + 1} of {plan.rounds}: {used:.1f} s, {units.clock(time.monotonic() - start)} so far")


def read_pool(folder: Path) -> Pool:
    """Whole rounds, in order."""
    plan = saved_state.restore(folder / _PLAN, Plan)
    if plan is None:
        raise UnusableInputError(f"{folder}: no recording (it has no {_PLAN})")
    rounds = []
    changed: list[float] = []
    for round_ in range(plan.rounds):
        files = [_file(folder, round_, arm) for arm in ARMS]
        if not all(path.exists() for path in files):
            break
        rows = []
        for path in files:
            known = load(path).merged()
            cases = [known[name] for name in plan.cases if name in known]
            if len(cases) < len(plan.cases) or not all(case.state is State.MEASURED for case in cases):
                raise UnusableInputError(f"{path}: lacks a case of the plan")
            rows.append([math.log(case.seconds) for case in cases])
        changed += sorted(path.stat().st_mtime for path in files)
        rounds.append(rows)
    if len(rounds) < 2:
        raise UnusableInputError(f"{folder}: fewer than two whole rounds")
    # Files are written as processes end, so that the gaps are their times; pauses between sessions are excluded.
    process_seconds = float(np.median(np.diff(np.sort(changed))))
    return Pool(tuple(plan.cases), np.array(rounds), process_seconds)


# The pairs that are compared. Both run next to each other in every round.
PAIRS = (("base", "base2"), ("base2", "slow3"), ("base", "slow5"))
U_TEST_ALPHA = 0.05


@dataclass(frozen=True)
class Rates:
    """The outcomes of one pair of arms in windows, [window, case]."""

    injected: float
    verdicts: NDArray[np.object_]
    u_tests: NDArray[np.bool_]
    pairs_used: float  # on average

    def share(self, *verdicts: Verdict) -> Floats:
        """The share of the windows of each case."""
        return np.asarray(np.isin(self.verdicts, np.array(verdicts, dtype=object)).mean(axis=0))

    @property
    def u_test(self) -> Floats:
        return np.asarray(self.u_tests.mean(axis=0))

    @property
    def called(self) -> Floats:
        """False verdicts where nothing is injected, else the right ones."""
        return self.share(Verdict.SLOWER) if self.injected else self.share(Verdict.SLOWER, Verdict.FASTER)

    def text(self) -> str:
        return f"injected {100 * self.injected:.0f} %: SLOWER" if self.injected else "false verdicts"

    def worst(self) -> str:
        return f"worst case {_percent(float(np.min(self.called) if self.injected else np.max(self.called)))}"


def window_verdicts(base: Floats, new: Floats, base_first: bool) -> tuple[list[Verdict], list[int]]:
    """The verdicts of abba on [pair, case] if the window is its whole budget, and the number of pairs until each."""
    pairs, cases = base.shape
    trials = [Trial(str(case), base_first) for case in range(cases)]
    decided = [pairs] * cases
    looks = 0
    for pair in range(pairs):
        for case, trial in enumerate(trials):
            if trial.verdict is None:
                trial.base.append(float(base[pair, case]))
                trial.new.append(float(new[pair, case]))
        fraction = (pair + 1) / pairs
        if not sequential.is_due(looks, fraction, pair + 1):
            continue
        still = [trial.verdict is None for trial in trials]
        sequential.look(trials, fraction)
        looks += 1
        for case, trial in enumerate(trials):
            if still[case] and trial.verdict is not None:
                decided[case] = pair + 1
    return [trial.verdict or Verdict.AMBIGUOUS for trial in trials], decided


def u_test_calls(base: Floats, new: Floats) -> NDArray[np.bool_]:
    """The cases that compare.py marks as different, given the processes' medians as repetitions."""
    from scipy.stats import mannwhitneyu

    result = mannwhitneyu(base, new, alternative="two-sided", axis=0)
    return np.asarray(result.pvalue < U_TEST_ALPHA)


def rates(pools: Sequence[Pool], base: str, new: str, window: int) -> Rates:
    """Over every contiguous window of every pool."""
    verdicts: list[list[Verdict]] = []
    u_tests = []
    used: list[int] = []
    base_before = ARMS.index(base) < ARMS.index(new)
    for pool in pools:
        columns = pool.arm(base), pool.arm(new)
        for start in range(len(columns[0]) - window + 1):
            a, b = (column[start : start + window] for column in columns)
            found, decided = window_verdicts(a, b, base_before == (start % 2 == 0))
            verdicts.append(found)
            u_tests.append(u_test_calls(a, b))
            used += decided
    return Rates(
        INJECTED[new] - INJECTED[base], np.array(verdicts, dtype=object), np.array(u_tests), float(np.mean(used))
    )


def block_u_test(pool: Pool, window: int) -> Floats:
    """False alarms of compare.py's test where one block of processes runs after the other, not in turns."""
    column = pool.arm("base")
    calls = [
        u_test_calls(column[start : start + window], column[start + window : start + 2 * window])
        for start in range(column.shape[0] - 2 * window + 1)
    ]
    return np.array(calls).mean(axis=0) if calls else np.full(len(pool.cases), np.nan)


def within_round_deviation(pool: Pool) -> Floats:
    """Robust standard deviation of base2 over base, next to each other: the noise that a pair has."""
    differences = pool.arm("base2") - pool.arm("base")
    return np.asarray(MAD_SCALE * np.median(np.abs(differences - np.median(differences, axis=0)), axis=0))


# Small cases of every kind of bound, so that a process is short: arithmetic, memory, caches, whole models.
FILTER = (
    "^(matmul/impl:eager/dtype:(fp32|bf16|int8)/n:(256|512)"
    "|matmul/impl:eager/dtype:bf16/m:1/n:4096/k:4096"
    "|mlp/dtype:(fp32|bf16_autocast)/steps:2/layers:4/batch:256/d:256"
    "|(copy|read)/impl:stream/bytes:8388608/cache:warm)$"
)
ROUNDS = 124
FEWEST_CASES = 9
# Limits for a case: false verdicts at most, and detections of an injected slowdown at least, within the budget.
TARGETS = {0.0: 0.01, 0.03: 0.60, 0.05: 0.90}

_EPILOG = """
examples:
  tools/error_rate simulate
  tools/error_rate sides
  tools/error_rate record --out=pool --minutes=60 --binary=build/release/bin/roofbench
  tools/error_rate evaluate pool
"""


def _record(args: argparse.Namespace) -> int:
    command = parse(args.binary)
    flags = ["--check=off", *args.flags]
    seconds = args.minutes * 60
    plan = saved_state.restore(args.out / _PLAN, Plan)
    if plan is None:
        cases = command.with_flags(f"--benchmark_filter={args.filter}").cases()
        if len(cases) < FEWEST_CASES:
            raise UnusableInputError(f"--filter chooses {len(cases)} cases; at least {FEWEST_CASES} are wanted")
        plan = make_plan(command, cases, flags, args.out, seconds, args.rounds)
        say(f"{len(cases)} cases, {plan.max_time:g} s of samples each, {plan.rounds} rounds of {', '.join(ARMS)}")
    record_pool(command, plan, args.out, seconds, say)
    return 0


def _percent(value: float) -> str:
    return "-" if np.isnan(value) else f"{100 * value:.1f} %"


def _line(name: str, values: Sequence[str]) -> str:
    return f"{name:<58}" + "".join(f"{value:>11}" for value in values)


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
    found = [rates([recorded], base, new, window) for base, new in PAIRS]
    columns = {
        "pair sd": within_round_deviation(recorded),
        "false": found[0].called,
        "false@10": rates([recorded], "base", "base2", sequential.MIN_PAIRS).called,
        "U test": found[0].u_test,
        "U blocks": block_u_test(recorded, sequential.MIN_PAIRS),
        "3 % found": found[1].called,
        "5 % found": found[2].called,
        "same": found[0].share(Verdict.SAME),
    }
    show(_line("case", list(columns)))
    for i, case in enumerate(recorded.cases):
        show(_line(case, [_percent(float(column[i])) for column in columns.values()]))
    show(_line("mean", [_percent(float(np.mean(column))) for column in columns.values()]))
    show(
        "\nfalse: SLOWER or FASTER of base against base; false@10: the same with 10 pairs; U test: compare.py's test on"
        "\nthe same medians (p < 0.05); U blocks: the same, 10 processes and then 10; found: SLOWER where a slowdown is"
        "\ninjected.\n"
    )
    met = True
    for one in found:
        target = TARGETS[one.injected]
        share = float(np.mean(one.called))
        fine = share >= target if one.injected else share <= target
        met &= fine
        show(
            f"{one.text()}: {_percent(share)} of {len(one.verdicts)} windows x {len(recorded.cases)} cases"
            f" ({one.worst()}), target {'at least' if one.injected else 'at most'} {_percent(target)}:"
            f" {'met' if fine else 'NOT MET'}; {one.pairs_used:.0f} pairs on average"
        )
    return met


def _evaluate(args: argparse.Namespace) -> int:
    return 0 if report(read_pool(args.folder), args.budget) else 1


def _simulate(args: argparse.Namespace) -> int:
    """Disjoint windows of many pools."""
    window = int(args.budget / (2 * args.process_seconds))
    random = np.random.default_rng(args.seed)
    pools = [simulated_pool(random, window, args.process_seconds) for _ in range(args.pools)]
    show(f"{args.pools} windows of {window} pairs, {args.process_seconds:g} s a process")
    for base, new in PAIRS:
        one = rates(pools, base, new, window)
        called, u_test = (_percent(float(np.mean(column))) for column in (one.called, one.u_test))
        show(f"{one.text()}: {called} ({one.worst()}), U test {u_test}, {one.pairs_used:.0f} pairs on average")
    return 0


def _sides(args: argparse.Namespace) -> int:
    from roofreport.studies import two_sides

    lines, is_met = two_sides.table(args.seed, args.comparisons)
    show(f"{args.comparisons} comparisons of {two_sides.CASES} cases, seed {args.seed}")
    show("\n".join(lines))
    return 0 if is_met else 1


def parser() -> argparse.ArgumentParser:
    raw = argparse.RawDescriptionHelpFormatter
    top = argparse.ArgumentParser(
        prog="tools/error_rate",
        description="How often the verdicts of tools/report abba are wrong on this machine.",
        epilog=_EPILOG,
        formatter_class=raw,
    )
    verbs = top.add_subparsers(required=True, metavar="VERB")
    record = verbs.add_parser("record", help="run the processes (resumes what was begun)")
    record.add_argument("--out", type=Path, required=True, metavar="DIR")
    record.add_argument("--minutes", type=amount, default=60.0, metavar="N", help="at most (60)")
    binary = str(project_folder.root() / "build/release/bin/roofbench")
    record.add_argument("--binary", default=binary, help="a program, with flags")
    record.add_argument(
        "--filter", "--benchmark_filter", default=FILTER, metavar="REGEX", help="cases, as --benchmark_filter"
    )
    add_flag(record, "for every process (repeatable)")
    record.add_argument("--rounds", type=count, default=ROUNDS, metavar="N", help=f"of four processes each ({ROUNDS})")
    record.set_defaults(run=_record)
    evaluate = verbs.add_parser("evaluate", help="verdicts on contiguous windows; exit status 1: targets not met")
    evaluate.add_argument("folder", type=Path, metavar="DIR")
    add_budget(evaluate, "of a window (10min)", default=600.0)
    evaluate.set_defaults(run=_evaluate)
    simulate = verbs.add_parser("simulate", help="the same on synthetic noise")
    simulate.add_argument("--pools", type=count, default=200)
    simulate.add_argument("--seed", type=int, default=1)
    add_budget(simulate, "of a window (10min)", default=600.0)
    simulate.add_argument("--process-seconds", type=amount, default=7.0)
    simulate.set_defaults(run=_simulate)
    sides = verbs.add_parser("sides", help="false and found verdicts of compare and abba on synthetic processes")
    sides.add_argument("--comparisons", type=count, default=100)
    sides.add_argument("--seed", type=int, default=1)
    sides.set_defaults(run=_sides)
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    args = parser().parse_args(arguments)
    return ended("tools/error_rate", lambda: int(args.run(args)))


if __name__ == "__main__":
    sys.exit(main())
