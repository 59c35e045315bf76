# SPDX-License-Identifier: Apache-2.0
"""The steps of a nightly run. A step that fails never discards the results of another."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from roofreport import files
from roofreport.exit_status import forwarding
from roofreport.project_folder import root
from roofreport.terminal import say
from roofreport.text import printable

from nightly_runs.config import Config
from nightly_runs.folders import NightlyRun, Process, all_runs, delete_old
from nightly_runs.message import FORMATS, page_of, send

OK, ALARM, FAILED, SKIPPED, UNSENT = "ok", "alarm", "failed", "skipped", "not sent"
_SHOWN = {OK: "ok", ALARM: "needs a look", FAILED: "FAILED", SKIPPED: "skipped", UNSENT: "not sent"}
_NOT_STARTED = 127
# Exit statuses of tools/bench: all cases have run, some of them failed. Another attempt would end the same way after
# those, and if the run was refused.
_MEASURED = (0, 1)
_FINAL = (*_MEASURED, 2, _NOT_STARTED)


# The part of gate.json that is read here.
_JUDGED = {
    "nights": [
        {"machine": "", "revision": "", "cases": 0, "notes": [""], "found": [{"kind": "", "case": "", "text": ""}]}
    ]
}


def _fits(value: Any, form: Any) -> bool:
    if isinstance(form, dict):
        return isinstance(value, dict) and all(key in value and _fits(value[key], part) for key, part in form.items())
    if isinstance(form, list):
        return isinstance(value, list) and all(_fits(one, form[0]) for one in value)
    return isinstance(value, type(form))


class InterruptedRunError(Exception):
    """A signal ended the run."""

    def __init__(self, number: int) -> None:
        super().__init__(f"signal {number}")
        self.number = number


def execute(command: Sequence[str], log: Path) -> int:
    """Runs a command, copies its output to the terminal and the log, and forwards signals to it. Returns its exit
    status, 128 + n after a signal. Raises InterruptedRunError when it has ended after a signal to us."""
    received: list[int] = []
    with forwarding(received) as start, log.open("ab", buffering=0) as file:
        try:
            process = start(
                command, cwd=root(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
            )
        except OSError as error:
            why = f"cannot start {printable(command[0])}: {error.strerror}"
            file.write(why.encode() + b"\n")
            say(why)
            return _NOT_STARTED
        assert process.stdout is not None
        for line in process.stdout:
            with suppress(OSError):  # a full disk does not stop the measurement
                file.write(line)
            say(line.decode(errors="backslashreplace").rstrip("\n"))
        status = process.wait()
    if received:
        raise InterruptedRunError(received[0])
    return 128 - status if status < 0 else status


@dataclass(frozen=True)
class StepOutcome:
    step: str
    state: str
    reason: str = ""

    def __str__(self) -> str:
        return f"{self.step}: {_SHOWN[self.state]}{', ' + self.reason if self.reason else ''}"


@dataclass
class Chain:
    config: Config
    current: NightlyRun
    outcomes: list[StepOutcome] = field(default_factory=list)

    def run(self) -> None:
        self._step("build", self._build)
        self._step("suite", self._suite, needs=("build",))
        self._step("add", self._add)
        self._step("gate", self._gate, needs=("suite", "add"))
        self._step("site", self._site, needs=("add",))
        self._keep_good_build()
        if self._state("add") == OK:
            delete_old(self.config.nights, self.config.keep_nights)
        if self.config.message_url and (self.config.message_when == "always" or self._needs_a_look):
            self._step("message", self._message)

    @property
    def _needs_a_look(self) -> bool:
        return any(outcome.state != OK for outcome in self.outcomes)

    def _state(self, step: str) -> str:
        return next((outcome.state for outcome in self.outcomes if outcome.step == step), SKIPPED)

    def _step(self, name: str, work: Callable[[], tuple[str, str]], needs: Sequence[str] = ()) -> None:
        missing = [step for step in needs if self._state(step) in (FAILED, SKIPPED)]
        if missing:
            outcome = StepOutcome(name, SKIPPED, f"because of {missing[0]}")
        else:
            say(f"== {name}")
            try:
                state, reason = work()
            except OSError as error:
                state, reason = FAILED, f"{error.filename or self.current.folder}: {files.reason(error)}"
            outcome = StepOutcome(name, state, reason)
        self.outcomes.append(outcome)
        if outcome.state != OK:
            say(f"== {outcome}")

    def _do(self, step: str, command: Sequence[str]) -> int:
        return execute(command, self.current.log(step))

    def _result(self, step: str, status: int) -> tuple[str, str]:
        return (FAILED, f"exit status {status}, see {self.current.log(step)}") if status else (OK, "")

    def _build(self) -> tuple[str, str]:
        return self._result("build", self._do("build", self.config.build_command))

    def _measure(self, process: Process) -> int:
        """Runs the suite to completion in at most `attempts` attempts."""
        outputs = [f"--benchmark_out={process.result}", f"--journal={process.journal}"]
        status = 0
        for _ in range(self.config.suite_attempts):
            flags = ["--resume"] if process.is_unfinished else self.config.suite_flags
            status = self._do("suite", [*self.config.suite_command, *flags, *outputs])
            if status in _FINAL:
                break
        return status

    def _suite(self) -> tuple[str, str]:
        self._finish_earlier_runs()
        if self.current.added_marker.exists():
            say(f"== the results of {self.current.folder.name} are in the history already")
            return OK, ""
        statuses: set[int] = set()
        for number in range(1, self.config.suite_processes + 1):
            process = self.current.process(number)
            if process.has_ended:
                continue
            say(f"== process {number} of {self.config.suite_processes}")
            status = self._measure(process)
            if status not in _MEASURED or not process.has_ended:
                return FAILED, f"exit status {status}, see {self.current.log('suite')}"
            statuses.add(status)
        return (ALARM, "some cases failed") if 1 in statuses else (OK, "")

    def _finish_earlier_runs(self) -> None:
        for earlier in all_runs(self.config.nights):
            if earlier == self.current or not earlier.is_unfinished:
                continue
            for process in earlier.processes():
                if not process.is_unfinished:
                    continue
                say(f"== resuming {earlier.folder.name}, which is incomplete")
                if self._measure(process) not in _MEASURED:
                    say("== keeping its incomplete results")
                    process.give_up()

    def _add(self) -> tuple[str, str]:
        """Also adds earlier runs that the history lacks."""
        for run in all_runs(self.config.nights):
            if not run.is_pending:
                continue
            date = [f"--started={run.started.isoformat()}"] if run.date_marker.exists() else []
            command = ["tools/report", "history", "add", f"--store={self.config.store}", *date]
            status = self._do("add", [*command, *map(str, run.records())])
            if status:
                kept = f"; the results stay in {run.folder}, and the next nightly run adds them"
                return FAILED, self._result("add", status)[1] + kept
            run.added_marker.touch()
        return OK, ""

    @property
    def _good(self) -> Path:
        return self.config.nights / "good" / "roofbench"

    def _second_runs(self) -> list[str]:
        """Flags to run slower cases again, with tonight's program and that of the last run without an alarm."""
        if not self.config.gate_binary or not Path(self.config.gate_binary).exists():
            return []
        base = [f"--base={self._good}", "--profile"] if self._good.exists() else []
        return [f"--binary={self.config.gate_binary}", *base, f"--state={self.current.folder / 'again'}"]

    def _gate(self) -> tuple[str, str]:
        kinds = {"markdown": "md", "junit": "xml", "json": "json"}
        written = [f"--{flag}={self.current.findings(kind)}" for flag, kind in kinds.items()]
        results = map(str, self.current.records())
        flags = [f"--store={self.config.store}", *self._second_runs(), *written]
        status = self._do("gate", [*self.config.gate_command, *flags, *results])
        if status == 1:
            return ALARM, "something got worse"
        state, reason = self._result("gate", status)
        return state, reason or "; ".join(note for night in self._judged().get("nights", ()) for note in night["notes"])

    def _judged(self) -> dict[str, Any]:
        """The gate's findings; empty if it did not judge, or if a gate of one's own writes others."""
        if self._state("gate") == FAILED:
            return {}
        try:
            document = json.loads(self.current.findings("json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return document if _fits(document, _JUDGED) else {}

    def _message(self) -> tuple[str, str]:
        """Its loss is reported, and does not change the result of the night."""
        steps = [{"step": one.step, "state": one.state, "reason": one.reason} for one in self.outcomes]
        judged = self._judged()
        for one in (one for night in judged.get("nights", ()) for one in night["found"]):
            one["page"] = page_of(self.config.message_site, one.get("series"))
        body = FORMATS[self.config.message_format](self.current.started, steps, judged)
        lost = send(self.config.message_url, body)
        return (UNSENT, lost) if lost else (OK, "")

    def _site(self) -> tuple[str, str]:
        flags = [f"--store={self.config.store}", f"--out={self.config.site}"]
        return self._result("site", self._do("site", [*self.config.pages_command, *flags]))

    def _keep_good_build(self) -> None:
        """Copies the program, which the next build overwrites, for the second runs of the next nightly run."""
        if self._state("gate") != OK or self._state("suite") != OK or not Path(self.config.gate_binary or "-").exists():
            return
        try:
            self._good.parent.mkdir(exist_ok=True)
            files.copy(Path(self.config.gate_binary), self._good, 0o777)
        except OSError as error:
            say(f"== cannot keep tonight's program for the next nightly run: {printable(str(error))}")
