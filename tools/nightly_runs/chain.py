# SPDX-License-Identifier: Apache-2.0
"""The steps of a night, and what follows from one that fails: no step loses what another one has measured."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from roofreport import files
from roofreport.terminal import tell
from roofreport.text import printable

from nights import child
from nights.config import Config
from nights.night import Night, Process, all_nights, forget_old

OK, ALARM, FAILED, SKIPPED = "ok", "alarm", "failed", "skipped"
_REPORT = "tools/report"
# tools/bench: every case has run, or some of them failed. More is an end before the end.
_MEASURED = (0, 1)
_REFUSED = 2
_ABOUT = {OK: "ok", ALARM: "something needs a look", FAILED: "FAILED", SKIPPED: "left out"}


@dataclass(frozen=True)
class Outcome:
    step: str
    state: str
    why: str = ""

    def __str__(self) -> str:
        return f"{self.step}: {_ABOUT[self.state]}{', ' + self.why if self.why else ''}"


@dataclass
class Chain:
    config: Config
    night: Night
    outcomes: list[Outcome] = field(default_factory=list)

    def run(self) -> None:
        self._step("build", self._build)
        self._step("suite", self._suite, needs=("build",))
        self._step("add", self._add)
        self._step("gate", self._gate, needs=("suite", "add"))
        self._step("site", self._site, needs=("add",))
        self._keep_good_build()
        if self._state("add") == OK:
            forget_old(self.config.nights, self.config.keep_nights)

    def _state(self, step: str) -> str:
        return next((outcome.state for outcome in self.outcomes if outcome.step == step), SKIPPED)

    def _step(self, name: str, work: Callable[[], tuple[str, str]], needs: Sequence[str] = ()) -> None:
        missing = [step for step in needs if self._state(step) in (FAILED, SKIPPED)]
        if missing:
            outcome = Outcome(name, SKIPPED, f"because of {missing[0]}")
        else:
            tell(f"== {name}")
            try:
                state, why = work()
            except OSError as error:
                state, why = FAILED, f"{error.filename or self.night.folder}: {files.reason(error)}"
            outcome = Outcome(name, state, why)
        self.outcomes.append(outcome)
        if outcome.state != OK:
            tell(f"== {outcome}")

    def _do(self, step: str, command: Sequence[str]) -> int:
        return child.run(command, self.night.log(step))

    def _ended(self, step: str, status: int) -> tuple[str, str]:
        if status == 0:
            return OK, ""
        return FAILED, f"exit status {status}, see {self.night.log(step)}"

    def _build(self) -> tuple[str, str]:
        return self._ended("build", self._do("build", self.config.build))

    def _measure(self, process: Process) -> int:
        """Until it has come to its end, as often as that may be tried."""
        out = f"--benchmark_out={process.result}"
        fresh = [*self.config.flags, out, "--benchmark_out_format=json", f"--journal={process.journal}"]
        status = 0
        for attempt in range(self.config.attempts):
            going_on = process.is_unfinished
            if attempt and not going_on:
                break  # it left nothing to go on with
            status = self._do("suite", [*self.config.suite, *(["--resume", out] if going_on else fresh)])
            if status in _MEASURED or (going_on and status == _REFUSED):
                break
        return status

    def _suite(self) -> tuple[str, str]:
        self._go_on_with_earlier()
        if self.night.is_added:
            tell(f"== {self.night.folder.name} has its runs already")
            return OK, ""
        statuses: set[int] = set()
        for number in range(1, self.config.processes + 1):
            process = self.night.process(number)
            if process.has_ended:
                continue
            tell(f"== process {number} of {self.config.processes}")
            status = self._measure(process)
            if status not in _MEASURED or not process.has_ended:
                return FAILED, f"exit status {status}, see {self.night.log('suite')}"
            statuses.add(status)
        return (ALARM, "some cases failed") if 1 in statuses else (OK, "")

    def _go_on_with_earlier(self) -> None:
        for earlier in all_nights(self.config.nights):
            for process in earlier.processes():
                if not process.is_unfinished or earlier == self.night:
                    continue
                tell(f"== {earlier.folder.name} did not come to its end; going on with it")
                if self._measure(process) not in _MEASURED:
                    tell("== it is kept as far as it came")
                    process.give_up()

    def _add(self) -> tuple[str, str]:
        """Also what earlier nights could not add."""
        for night in all_nights(self.config.nights):
            if not night.is_pending:
                continue
            when = [f"--started={night.began.isoformat()}"] if night.is_dated else []
            results = [str(path) for path in night.files()]
            status = self._do("add", [_REPORT, "history", "add", f"--store={self.config.store}", *when, *results])
            if status:
                kept = f"; the run is kept in {night.folder} and added by the next night"
                return FAILED, self._ended("add", status)[1] + kept
            night.set_added()
        return OK, ""

    @property
    def _good(self) -> Path:
        return self.config.nights / "good" / "roofbench"

    def _second_runs(self) -> list[str]:
        """The program of this night, and that of the last one without an alarm, for what looks slower."""
        if not self.config.binary or not Path(self.config.binary).exists():
            return []
        base = [f"--base={self._good}"] if self._good.exists() else []
        return [f"--binary={self.config.binary}", *base, f"--state={self.night.folder / 'again'}"]

    def _gate(self) -> tuple[str, str]:
        kinds = {"markdown": "md", "junit": "xml", "json": "json"}
        written = [f"--{flag}={self.night.findings(kind)}" for flag, kind in kinds.items()]
        command = [*self.config.gate, f"--store={self.config.store}", *self._second_runs(), *written]
        tonight = [str(process.files()[0]) for process in self.night.processes()]
        status = self._do("gate", [*command, *tonight])
        if status == 1:
            return ALARM, "something got worse"
        return self._ended("gate", status)

    def _site(self) -> tuple[str, str]:
        command = [*self.config.pages, f"--store={self.config.store}", f"--out={self.config.site}"]
        return self._ended("site", self._do("site", command))

    def _keep_good_build(self) -> None:
        """For the second runs of the next night. A copy: the build folder is written over."""
        if self._state("gate") != OK or self._state("suite") != OK or not Path(self.config.binary or "-").exists():
            return
        new = self._good.with_suffix(".new")
        try:
            new.parent.mkdir(exist_ok=True)
            shutil.copy2(self.config.binary, new)
            new.replace(self._good)
        except OSError as error:
            tell(f"== The program of this night is not kept for the next: {printable(str(error))}")
