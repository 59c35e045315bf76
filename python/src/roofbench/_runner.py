# SPDX-License-Identifier: Apache-2.0
"""`python -m roofbench run FILE`: the cases of the families in a file, each in a process of its own that may crash,
hang or exit; records are those of the program (docs/unattended.md)."""

from __future__ import annotations

import argparse
import importlib.machinery
import importlib.util
import json
import multiprocessing
import os
import shlex
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing import connection
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

import roofbench
from roofbench import _core, _family, _google_benchmark, _render
from roofbench._family import Planned, UsageError
from roofbench._result import contract_with

Line = dict[str, Any]  # of a journal

OK, FAILED, REFUSED, SIGNALLED = 0, 1, 2, 128  # and the signal's number
_LONGEST_REASON = 2000
_LONGEST_COMMAND = 1000  # as of the program: readers of results limit the length of a fact
_SPAWN = multiprocessing.get_context("spawn")
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def say(text: str) -> None:
    print(f"roofbench: {text}", file=sys.stderr, flush=True)


def _printable(text: str) -> str:
    """In a row, on one line."""
    return _core.printable(text.replace("\n", "\\n"), _LONGEST_REASON)


def load(path: Path) -> None:
    """Runs the file, which declares its families; it may import its neighbors."""
    if not path.is_file():
        raise UsageError(f"{path}: there is no such file")
    sys.path.insert(0, str(path.resolve().parent))
    loader = importlib.machinery.SourceFileLoader(path.stem, str(path.resolve()))
    spec = importlib.util.spec_from_loader(path.stem, loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module  # as an import does, for what looks up a class by its module
    loader.exec_module(module)


# The process of a case.


def _measured(job: Line) -> Line:
    """The line of the journal and the text for the console; or a verdict and its reason."""
    try:
        load(Path(job["file"]))
        one = next(one for one in _family.families() if one.name == job["family"])
        point = one.point_at(job["point"])
        case = one.case_at(point)
        named = {"name": point.name, "axes": point.axes}
        result = roofbench.measure(case.fn, *case.args, **{**named, **job["options"], **case.options})
        return {"line": result.line(), "text": repr(result)}
    except _family.Skip as skip:
        verdict, reason = "skipped", str(skip)
    except Exception as error:  # the text of whatever the file raises is the row's
        if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
            verdict, reason = "skipped", f"out of memory: {error}"
        else:
            verdict, reason = "failed", f"{type(error).__name__}: {error}"
            traceback.print_exc()
    return {"verdict": verdict, "reason": _printable(reason)}


def run_case(job: Line, parent: int, answer: connection.Connection) -> NoReturn:
    """Runs a case in its process."""
    with suppress(OSError):
        os.setsid()  # Ctrl-C is the parent's; what the case starts ends with it
    if not _core.be_supervised_by(parent):
        os._exit(FAILED)
    from roofbench import _machine

    _machine.says_crowds = False
    os.dup2(2, 1)  # the table is the parent's; whatever the file prints must not stand in it
    line = _measured(job)
    sys.stdout.flush()  # before the answer, upon which the parent ends this process
    sys.stderr.flush()
    answer.send(line)
    os._exit(OK)  # a crash of some library's end is not the case's


# Its parent.


class Signals:
    """Notes the first SIGINT, SIGTERM or SIGHUP; `wake` becomes readable then."""

    def __init__(self) -> None:
        self.received = 0
        self.wake, write = os.pipe()
        os.set_blocking(write, False)
        signal.set_wakeup_fd(write, warn_on_full_buffer=False)
        for number in _ENDING:
            if signal.getsignal(number) != signal.SIG_IGN:
                signal.signal(number, self._note)

    def _note(self, number: int, _: FrameType | None) -> None:
        self.received = self.received or number


def answer_of(job: Line, seconds: float, signals: Signals) -> Line | None:
    """Runs the case in a process of its own; None: a signal ended the run meanwhile."""
    limit = _core.CaseLimit(seconds)
    receive, send = _SPAWN.Pipe(duplex=False)
    process = _SPAWN.Process(target=run_case, args=(job, os.getpid(), send))
    process.start()
    assert process.pid is not None
    send.close()
    try:
        while not limit.is_reached():
            ready = connection.wait([receive, signals.wake], limit.next_call())
            if signals.received:
                return None
            if ready:
                found: Line = receive.recv()
                return found
        return _failure(limit.reason())
    except EOFError:
        while process.exitcode is None and not limit.is_reached():
            process.join(limit.next_call())
        return _failure(limit.reason() if process.exitcode is None else _core.describe_end(process.exitcode))
    finally:
        process.kill()
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.join()
        receive.close()


def _failure(reason: str) -> Line:
    return {"verdict": "failed", "reason": reason}


def facts_of(program: str, folder: Path) -> dict[str, str]:
    """The context of a result: the machine, and the program with the commit that its folder is at."""
    from roofbench._machine import context

    git = ["git", "-C", str(folder), "describe", "--always", "--dirty", "--exclude=*"]
    found = ""
    with suppress(OSError, subprocess.TimeoutExpired):
        done = subprocess.run(git, capture_output=True, text=True, timeout=10, check=False)
        found = done.stdout.strip() if done.returncode == 0 else ""
    return context() | {"program": program} | ({"program_revision": found} if found else {})


@dataclass
class Run:
    """The cases of one command line, and what became of them."""

    args: argparse.Namespace
    planned: list[Planned]
    facts: dict[str, str]
    journal: _core.Journal | None
    before: Sequence[str] = ()  # lines of the journal from earlier processes
    is_whole: bool = True  # the journal
    signals: Signals = field(default_factory=Signals)
    lines: list[Line] = field(default_factory=list)  # of all processes

    def execute(self) -> None:
        recorded = {(line["name"], line["repetition"]): line for line in map(json.loads, self.before)}
        for index, one in enumerate(self.planned):
            for repetition in range(self.args.repetitions):
                line = recorded.get((one.point.name, repetition))
                if line is not None:
                    self.show(f"{one.point.name}  {line['verdict']} before, from the journal")
                else:
                    if sys.stderr.isatty():
                        place = f"[{index + 1}/{len(self.planned)}] {one.point.name}"
                        print(f"\r\x1b[K{place}\r", end="", file=sys.stderr, flush=True)
                    line = self._run(one, repetition)
                self.lines += [line] if line else []

    def _run(self, one: Planned, repetition: int) -> Line | None:
        if self.signals.received:
            return None
        options = {name: getattr(self.args, name) for name in OPTIONS if getattr(self.args, name) is not None}
        job = {"file": str(self.args.file), "family": one.family.name, "options": options}
        job["point"] = one.point.values
        answer = answer_of(job, self.args.case_timeout, self.signals)
        if answer is None:
            return None
        if "line" not in answer:
            verdict, reason, name = answer["verdict"], answer["reason"], one.point.name
            answer["line"] = json.loads(_core.unmeasured_line(name, one.point.axes, verdict, reason))
            answer["text"] = f"{name}  {verdict}: {reason}"
        line: Line = answer["line"] | {"repetition": repetition}
        if self.journal and (why := self.journal.append(json.dumps(line))):
            say(f"{why}; --resume runs this case again")
            self.is_whole = False
        self.show(answer["text"])
        return line

    def show(self, text: str) -> None:
        """Where nobody reads it any more (`| head`), the run ends in order."""
        try:
            print(text, flush=True)
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            self.signals.received = self.signals.received or signal.SIGPIPE


# The command line. The flags of the program that tools/report abba and gate, and tools/nightly, give are aliases.


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(message)


def _above_0(kind: type[float], most: float) -> Callable[[str], float]:
    def read(text: str) -> float:
        value = kind(text)
        if not 0 < value <= most:
            raise ValueError(text)
        return value

    read.__name__ = "whole number from 1" if kind is int else "number above 0"  # in messages
    return read


_SECONDS, _COUNT = _above_0(float, sys.float_info.max), _above_0(int, 1e6)

# Options of measure that a command line may set for every case: --max_time=SECONDS.
OPTIONS = {
    "max_time": (_SECONDS, "S", "seconds of samples of a case"),
    "max_warmup_time": (_SECONDS, "S", "seconds of its warm-up, at most"),
    "max_samples": (_COUNT, "N", "samples of a case, at most"),
}


def parser() -> argparse.ArgumentParser:
    top = _Parser(prog="python -m roofbench")
    top.add_argument("--version", action="version", version=f"roofbench {_core.version} ({_core.git_revision})")
    verbs = top.add_subparsers(required=True, metavar="run")
    add = verbs.add_parser("run", help="measures the families of a file", allow_abbrev=False).add_argument
    add("file", type=Path, metavar="FILE", help="a Python file with @roofbench.family")
    add("--filter", "--benchmark_filter", default="", metavar="REGEX", help="cases to run; a leading - inverts it")
    add("--axis", action="append", default=[], metavar="[FAMILY.]NAME=V1,V2", help="replace values: n=256:4096:x2")
    add("--journal", type=Path, metavar="FILE", help="the record: a line for each finished case, at once")
    add("--resume", action="store_true", help="continue the journal")
    add("--benchmark_out", type=Path, metavar="OUT", help="also Google Benchmark's JSON, for its compare.py")
    add("--case_timeout", "--timeout", type=_SECONDS, default=900.0, metavar="S", help="seconds of a case (900)")
    add("--repetitions", "--benchmark_repetitions", type=_COUNT, default=1, metavar="N", help="processes of each case")
    add("--list", "--benchmark_list_tests", nargs="?", const="text", choices=("text", "true", "json"), help="the cases")
    add("--describe", choices=("json",), help="the contract: families, axes and counters")
    add("--benchmark_out_format", choices=("json",), help=argparse.SUPPRESS)
    for name, (read, unit, text) in OPTIONS.items():
        add(f"--{name}", type=read, metavar=unit, help=text)
    return top


def _parsed(arguments: Sequence[str]) -> tuple[argparse.Namespace, list[str]]:
    """And the arguments without --resume. If no flag with --resume decides what is measured or how, they are those of
    the journal's run, as with the program."""
    args = parser().parse_args(arguments)
    own = [one for one in arguments if one != "--resume"]
    if not args.resume:
        return args, own
    if not args.journal:
        raise UsageError("--resume needs --journal=FILE, which keeps the finished cases")
    default = parser().parse_args(["run", str(args.file)])
    if _chosen(args) != _chosen(default):
        return args, own
    with suppress(OSError, ValueError, KeyError, TypeError), args.journal.open(encoding="utf-8") as lines:
        own = list(map(str, json.loads(next(lines, ""))["arguments"]))
    given = {name: value for name, value in vars(args).items() if value != getattr(default, name)}
    return argparse.Namespace(**{**vars(parser().parse_args(own)), **given, "file": args.file}), own


def _chosen(args: argparse.Namespace) -> str:
    """The flags that decide what is measured and how."""
    values = {name: getattr(args, name) for name in ("filter", "axis", "repetitions", *OPTIONS)}
    each = [(name, one) for name, given in values.items() for one in (given if isinstance(given, list) else [given])]
    return shlex.join(f"--{name}={value}" for name, value in each if value)


def _identity(args: argparse.Namespace, facts: dict[str, str]) -> dict[str, str]:
    """Shared by the processes of one run."""
    python = " ".join(sys.version.split())
    return {
        "program": f"{args.file.name} {_core.hash_of_file(str(args.file))}, {_core.git_revision}, Python {python}",
        "device": ", ".join(facts[key] for key in ("device_kind", "device", "threads") if key in facts),
        "flags": _chosen(args),
    }


def _command_line(args: argparse.Namespace) -> str:
    """With the flags that choose cases."""
    flags = [f"--axis={axis}" for axis in args.axis] + ([f"--benchmark_filter={args.filter}"] if args.filter else [])
    return _core.printable(shlex.join(["python", "-m", "roofbench", "run", str(args.file), *flags]), _LONGEST_COMMAND)


def _why_not_written(path: Path) -> str:
    folder = path.resolve().parent
    if path.is_dir():
        return "it is a folder; name a file in it"
    if not folder.is_dir():
        return f"there is no folder {folder}; make it first"
    return "" if os.access(folder, os.W_OK) else f"you may not write to {folder}"


def run(arguments: Sequence[str]) -> int:
    """Does what the command line says, `run` and its flags. Raises UsageError."""
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `| head` ends the run, not a traceback
    args, own = _parsed(arguments)
    try:
        load(args.file)
    except UsageError:
        raise
    except Exception as error:  # whatever the file raises
        traceback.print_exc()
        raise UsageError(f"{args.file} cannot be loaded: {type(error).__name__}: {error}") from None
    known = _family.families()
    if not known:
        raise UsageError(f"{args.file}: declares no family; put @roofbench.family(n=[…]) above a function")
    if args.describe:
        print(json.dumps(json.loads(contract_with([one.describe() for one in known])), indent=1, ensure_ascii=False))
        return OK
    if args.list:
        print(_family.listed(known, args.axis, args.filter, args.list == "json"), end="")
        return OK
    planned = _family.plan(known, args.axis, args.filter)
    chosen = [one.describe() for one in known if any(one is each.family for each in planned)]
    for flag, path in (("benchmark_out", args.benchmark_out), ("journal", args.journal)):
        if path and (why := _why_not_written(path)):
            raise UsageError(f"--{flag}={path} cannot be written: {why}")
    if args.benchmark_out and args.journal and args.benchmark_out.resolve() == args.journal.resolve():
        raise UsageError(f"--benchmark_out and --journal are the same file, {args.journal}; choose another name")
    pressure = _core.yield_under_pressure()
    facts = facts_of(args.file.name, args.file.resolve().parent) | {"command_line": _command_line(args)}
    journal: _core.Journal | None = None
    lines: Sequence[str] = ()
    notes: Sequence[str] = ()
    if args.journal:
        journal = _core.Journal()
        try:
            facts, lines, notes = journal.open(
                str(args.journal),
                _identity(args, facts),
                facts,
                contract_with(chosen),
                cases=len(planned) * args.repetitions,
                arguments=own,
                resume=args.resume,
            )
        except ValueError as error:
            raise UsageError(str(error)) from None
    for note in notes:
        say(note)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)  # from here on, the run ends in order
    todo = Run(args, planned, facts, journal, lines)
    threads = _render.counted(int(facts["threads"]), "thread")
    todo.show(f"roofbench {facts['roofbench_version']}, {facts['device']}, {threads}")
    if pressure:
        say(pressure)
    todo.execute()
    return _finish(todo)


def _finish(todo: Run) -> int:
    """Writes what was measured, also after a signal."""
    out, ending = todo.args.benchmark_out, todo.signals.received
    verdicts = [line["verdict"] for line in todo.lines]
    states = {one: verdicts.count(one) for one in ("measured", "skipped", "failed") if one in verdicts}
    why = ""
    if out:
        why = _core.write_file(str(out), _google_benchmark.document(todo.facts, todo.lines, todo.args.repetitions))
        if why:
            say(why)
    written = [str(path) for path in (None if why else out, todo.args.journal) if path]
    counts = ", ".join(f"{count} {state}" for state, count in states.items()) or "no case"
    todo.show(f"{counts}{'; written: ' if written else ''}{', '.join(written)}")
    if ending:
        say(f"interrupted by signal {ending}" + ("; --resume continues" if todo.journal else ""))
        return SIGNALLED + ending
    return OK if not why and todo.is_whole and "failed" not in states else FAILED


def main() -> int:
    try:
        if why := _core.why_not_to_start():
            raise UsageError(why)
        return run(sys.argv[1:])
    except UsageError as error:
        say(str(error))
        return REFUSED
