# SPDX-License-Identifier: Apache-2.0
"""tools/nightly: the chain of steps, and what is left of a night when one of them fails."""

from __future__ import annotations

import fcntl
import json
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from dataclasses import fields
from pathlib import Path

import pytest
from builders import TIMES, header, journal_text, line, scaled, write_json
from machine import Machine
from nights.__main__ import main
from nights.chain import Outcome
from nights.config import Config, read
from nights.night import Night
from nights.summary import markdown
from roofreport.errors import UnusableInputError

ROOT = Path(__file__).resolve().parents[2]

# A suite that does what tools/bench does, as the file "orders" says.
_SUITE = """
import os, shutil, signal, sys, time
from pathlib import Path

folder = Path(__file__).parent
with (folder / "calls").open("a") as calls:
    calls.write("suite " + " ".join(sys.argv[1:]) + "\\n")
out = Path(next(flag.split("=", 1)[1] for flag in sys.argv if flag.startswith("--benchmark_out=")))
journal, marker = out.with_suffix(".journal.jsonl"), out.with_suffix(".unfinished")
orders = (folder / "orders").read_text().split()
order = orders.pop(0) if orders else "0"
(folder / "orders").write_text(" ".join(orders))
if order == "refuse":
    sys.exit(2)
if order == "unbuilt":
    sys.exit(1)
marker.write_text("flags")
shutil.copy(folder / "all.journal.jsonl", journal)
own = folder / out.name  # what this process measures, if that is something else than the others do
if own.exists():
    shutil.copy(own.with_suffix(".journal.jsonl"), journal)
if order == "die":
    os.kill(os.getpid(), signal.SIGKILL)
if order == "wait":
    (folder / "waits").touch()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    signal.pause()
out.write_text((own if own.exists() else folder / "all.json").read_text().replace('"vm"', f'"{out.parent.name}"'))
marker.unlink()
sys.exit(int(order))
"""
# A step that says how it was called, writes what --markdown names, and ends as the file of its name says.
_STEP = """
import sys
from pathlib import Path

folder = Path(__file__).parent
name = sys.argv[1]
with (folder / "calls").open("a") as calls:
    calls.write(" ".join(sys.argv[1:]) + "\\n")
for flag in sys.argv:
    if flag.startswith("--markdown="):
        Path(flag.split("=", 1)[1]).write_text("**SLOWER** gemv\\n")
status = folder / name
sys.exit(int(status.read_text()) if status.exists() else 0)
"""


class Chain:
    """tools/nightly with a suite and other steps of the test, and a history that is one."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.store = folder / "history.db"
        (folder / "suite.py").write_text(_SUITE)
        (folder / "step.py").write_text(_STEP)
        (folder / "orders").touch()
        (folder / "program").write_text("a program")
        self.measures(1.0)

        def command(*words: str) -> str:
            return json.dumps([sys.executable, *words])

        step = str(folder / "step.py")
        self.config = folder / "night.toml"
        self.config.write_text(
            f"keep_nights = 2\n[build]\ncommand = {command(step, 'build')}\n"
            f"[suite]\ncommand = {command(str(folder / 'suite.py'))}\nflags = ['--suite=quick']\nprocesses = 1\n"
            f"[gate]\ncommand = {command(step, 'gate')}\nbinary = '{folder}/program'\n"
            f"[pages]\ncommand = {command(step, 'site')}\n"
        )

    def measures(self, factor: float) -> None:
        """How slow the machine is from now on."""
        self._write("all", factor)

    def process_measures(self, number: int, factor: float) -> None:
        """What one process of a night finds."""
        self._write(f"result-{number}", factor)

    def _write(self, name: str, factor: float) -> None:
        write_json(self.folder / f"{name}.json", scaled(factor))
        lines = [line(name, time * factor) for name, time in TIMES.items()]
        (self.folder / f"{name}.journal.jsonl").write_text(journal_text(header(), *lines))

    def command(self, *flags: str) -> list[str]:
        return [sys.executable, "-I", str(ROOT / "tools/isolated.py"), "nights", str(self.config), *flags]

    def run(self, *flags: str, status: int = 0) -> str:
        """What it says."""
        done = subprocess.run(self.command(*flags), capture_output=True, text=True, check=False)
        assert done.returncode == status, done.stderr
        assert done.stdout == ""
        return done.stderr

    def runs_the_suite(self, times: int) -> None:
        self.config.write_text(self.config.read_text().replace("processes = 1", f"processes = {times}"))
        for number in range(2, times + 1):
            self.process_measures(number, 1 + 0.01 * number)

    def night(self, day: int, factor: float = 1.0, status: int = 0) -> str:
        self.measures(factor)
        return self.run(f"--date=2026-01-0{day}", status=status)

    def fails(self, step: str, status: int) -> None:
        (self.folder / step).write_text(str(status))

    def orders(self, *orders: str) -> None:
        (self.folder / "orders").write_text(" ".join(orders))

    def calls(self) -> list[str]:
        return (self.folder / "calls").read_text().splitlines()

    def runs(self) -> list[str]:
        """The dates of the runs that the history holds."""
        with sqlite3.connect(self.store) as database:
            found = database.execute("SELECT started FROM roofbench_runs ORDER BY started").fetchall()
        return [started[:10] for (started,) in found]

    def folders(self) -> list[str]:
        return sorted(path.name[:10] for path in (self.folder / "nights").iterdir() if path.name[0] == "2")


@pytest.fixture
def chain(tmp_path: Path) -> Chain:
    return Chain(tmp_path)


def test_three_nights_are_three_runs(chain: Chain) -> None:
    for day in (1, 2, 3):
        assert chain.night(day, factor=day).endswith("tools/nightly: ok\n")
    assert chain.runs() == ["2026-01-01", "2026-01-02", "2026-01-03"]
    assert chain.folders() == ["2026-01-02", "2026-01-03"], "the oldest is in the history, and two are kept"
    build, suite, gate, site = chain.calls()[-4:]
    last = chain.folder / "nights/2026-01-03T000000Z"
    assert build == "build"
    assert suite.startswith(f"suite --suite=quick --benchmark_out={last}/result.json ")
    assert f"--store={chain.store}" in gate
    assert gate.endswith(f" {last}/result.json")
    assert f"--binary={chain.folder}/program --base={chain.folder}/nights/good/roofbench" in gate
    assert site == f"site --store={chain.store} --out={chain.folder}/site"
    assert {path.name for path in last.iterdir()} >= {"suite.log", "add.log", "gate.log", "site.log", "gate.md"}


def test_a_night_of_this_name_is_not_measured_again(chain: Chain) -> None:
    chain.night(1)
    assert "has its runs already" in chain.night(1, factor=2.0)
    assert chain.runs() == ["2026-01-01"]


def test_every_process_of_a_night_is_a_run_of_it(chain: Chain) -> None:
    chain.runs_the_suite(3)
    chain.orders("0", "1", "0")
    assert chain.night(1, status=1).endswith("suite: something needs a look, some cases failed\n")
    assert chain.runs() == ["2026-01-01"] * 3
    folder = chain.folder / "nights/2026-01-01T000000Z"
    gate = next(call for call in chain.calls() if call.startswith("gate"))
    assert gate.endswith(f" {folder}/result.json {folder}/result-2.json {folder}/result-3.json")
    assert "has its runs already" in chain.night(1)


def test_a_process_that_dies_is_gone_on_with_and_those_after_it_follow(chain: Chain) -> None:
    chain.runs_the_suite(3)
    chain.orders("0", "die", "die", "die")
    chain.night(1, status=2)
    assert not chain.store.exists(), "a night is added when it has come to its end"
    chain.night(1)
    words = [word for call in chain.calls() if call.startswith("suite") for word in call.split()]
    suites = [Path(word).name for word in words if word.startswith("--benchmark_out=")]
    assert suites == ["result.json", *["result-2.json"] * 4, "result-3.json"]
    assert chain.runs() == ["2026-01-01"] * 3


def test_an_earlier_night_gets_the_process_that_died_and_no_more(chain: Chain) -> None:
    chain.runs_the_suite(3)
    chain.orders("0", "die", "die", "die")
    chain.night(1, status=2)
    for number in (2, 3):
        chain.process_measures(number, 2 + 0.01 * number)
    chain.night(2, factor=2.0)
    assert chain.runs() == ["2026-01-01"] * 2 + ["2026-01-02"] * 3


def test_a_failed_build_is_named_and_nothing_is_measured(chain: Chain) -> None:
    chain.fails("build", 3)
    said = chain.night(1, status=2)
    assert "tools/nightly: build: FAILED, exit status 3, see " in said
    assert "suite: left out, because of build; gate: left out, because of suite" in said
    assert chain.calls()[-1].startswith("site")
    assert not chain.store.exists()
    for day in (2, 3):
        chain.night(day, status=2)
    assert chain.folders() == ["2026-01-02", "2026-01-03"]


def test_a_suite_that_dies_goes_on_where_it_was(chain: Chain) -> None:
    chain.orders("die", "die", "0")
    chain.night(1)
    suites = [call for call in chain.calls() if call.startswith("suite")]
    out = f"--benchmark_out={chain.folder}/nights/2026-01-01T000000Z/result.json"
    assert suites[1:] == [f"suite --resume {out}"] * 2
    assert chain.runs() == ["2026-01-01"]


def test_a_suite_that_always_dies_is_gone_on_with_by_the_next_night(chain: Chain) -> None:
    chain.orders("die", "die", "die")
    said = chain.night(1, status=2)
    assert "suite: FAILED, exit status 137, see " in said
    chain.night(2, factor=2.0)
    assert chain.runs() == ["2026-01-01", "2026-01-02"]


def test_a_suite_that_nobody_can_go_on_with_is_kept_as_far_as_it_came(chain: Chain) -> None:
    chain.orders("die", "die", "die")
    chain.night(1, status=2)
    chain.orders("refuse", "0")
    assert "it is kept as far as it came" in chain.night(2, factor=2.0)
    assert chain.runs() == ["2026-01-01", "2026-01-02"]


def test_a_suite_that_measures_nothing_has_failed(chain: Chain) -> None:
    """tools/bench builds what is out of date, and ends with 1 where that fails, as where cases fail."""
    chain.orders("unbuilt")
    said = chain.night(1, status=2)
    assert "suite: FAILED, exit status 1, see " in said
    assert "gate: left out, because of suite" in said


def test_cases_that_failed_are_an_alarm_and_are_added(chain: Chain) -> None:
    chain.orders("1")
    assert "tools/nightly: suite: something needs a look, some cases failed" in chain.night(1, status=1)
    assert chain.runs() == ["2026-01-01"]


def test_a_run_that_cannot_be_added_is_added_by_the_next_night(chain: Chain) -> None:
    chain.store.write_text("something else")
    said = chain.night(1, status=2)
    assert "tools/nightly: add: FAILED, exit status 2, see " in said
    assert "the run is kept in " in said
    assert "gate: left out, because of add; site: left out, because of add" in said
    chain.store.unlink()
    chain.night(2, factor=2.0)
    assert chain.runs() == ["2026-01-01", "2026-01-02"]


def test_an_alarm_of_the_gate_is_told_and_the_site_is_written(chain: Chain, tmp_path: Path) -> None:
    chain.fails("gate", 1)
    chain.measures(1.0)
    said = chain.run("--date=2026-01-01", f"--summary={tmp_path}/summary.md", status=1)
    assert said.endswith("tools/nightly: gate: something needs a look, something got worse\n")
    assert chain.calls()[-1].startswith("site")
    summary = (tmp_path / "summary.md").read_text()
    assert "## Night of 2026-01-01 00:00 UTC" in summary
    assert "| gate | alarm | something got worse |" in summary
    assert "**SLOWER** gemv" in summary
    assert not (chain.folder / "nights/good/roofbench").exists(), "no base for the next night"


@pytest.mark.parametrize("step", ["gate", "site"])
def test_a_step_that_fails_is_named_and_loses_nothing(chain: Chain, step: str) -> None:
    chain.fails(step, 2)
    assert f"tools/nightly: {step}: FAILED, exit status 2, see " in chain.night(1, status=2)
    assert chain.calls()[-1].startswith("site")
    assert chain.runs() == ["2026-01-01"]


def test_a_command_that_is_not_there_is_a_failed_step(chain: Chain) -> None:
    chain.config.write_text(
        chain.config.read_text().replace(f'"{sys.executable}", "{chain.folder}/suite.py"', '"gone"')
    )
    said = chain.night(1, status=2)
    assert "gone cannot be started: No such file or directory" in said
    assert "suite: FAILED, exit status 127" in said


def test_two_nights_at_once_are_refused(chain: Chain) -> None:
    (chain.folder / "nights").mkdir()
    with (chain.folder / "nights/lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert "another night is running there" in chain.run(status=2)


def test_a_signal_reaches_the_suite_and_the_next_night_goes_on(chain: Chain) -> None:
    chain.orders("wait")
    process = subprocess.Popen(chain.command("--date=2026-01-01"), stderr=subprocess.PIPE, text=True)
    while not (chain.folder / "waits").exists():
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate()
    assert process.returncode == 128 + signal.SIGTERM
    assert "interrupted; the next one goes on with this night" in said
    chain.run("--date=2026-01-01")
    assert chain.runs() == ["2026-01-01"]
    assert " --resume " in [call for call in chain.calls() if call.startswith("suite")][-1]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("stoer = 'a'", "stoer is no setting; there are store, nights, site"),
        ("[suite]\nflag = []", "suite.flag is no setting"),
        ("suite = 3", "suite is a section: write [suite]"),
        ("keep_nights = 0", "keep_nights has to be a number from 1"),
        ("keep_nights = true", "keep_nights has to be a number from 1"),
        ("[suite]\nflags = '--suite=quick'", "suite.flags has to be a list of texts"),
        ("[build]\ncommand = []", "build.command is empty"),
        ("store = 3", "store has to be a text"),
        ("store = ", "is no TOML"),
        ('"\\u001b[2J" = 1', "is no setting"),
        ("a = " + "[" * 5000, "is no TOML"),
    ],
)
def test_a_configuration_that_makes_no_sense_is_refused(text: str, why: str, tmp_path: Path) -> None:
    (tmp_path / "night.toml").write_text(text)
    with pytest.raises(UnusableInputError) as refused:
        read(tmp_path / "night.toml")
    assert why in str(refused.value)
    assert "\x1b" not in str(refused.value)
    with pytest.raises(UnusableInputError, match=r"nowhere\.toml: No such file"):
        read(tmp_path / "nowhere.toml")


def test_everything_has_a_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ROOFBENCH_STORE", raising=False)
    (tmp_path / "night.toml").touch()
    config = read(tmp_path / "night.toml")
    assert (config.store, config.site) == (f"{tmp_path}/history.db", tmp_path / "site")
    assert config.suite == ("tools/bench",)
    monkeypatch.setenv("ROOFBENCH_STORE", "postgresql://a/b")
    assert read(tmp_path / "night.toml").store == "postgresql://a/b"


def test_the_example_shows_the_defaults(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["--example"])
    assert end.value.code == 0
    (tmp_path / "night.toml").write_text(capsys.readouterr().out)
    (tmp_path / "empty.toml").touch()
    assert read(tmp_path / "night.toml") == read(tmp_path / "empty.toml")
    settings = [line for line in (tmp_path / "night.toml").read_text().splitlines() if " = " in line]
    assert len(settings) == len(fields(Config))


def test_words_of_strangers_are_words_in_the_summary(tmp_path: Path) -> None:
    night = Night(tmp_path / "2026-01-01T000000Z")
    text = markdown(night, [Outcome("add", "failed", "a|b <img src=x> [x](y) `c`\x1b[2J\n# d")])
    row = next(line for line in text.splitlines() if line.startswith("| add"))
    assert "\\|" in row
    assert "\\<img" in row
    assert "\\`c\\`" in row
    assert "\x1b" not in text
    assert not any(line.startswith("# ") for line in text.splitlines())


def test_tools_bench_leaves_what_a_night_goes_on_with(machine: Machine, tmp_path: Path) -> None:
    """The real tools/bench, with a program that dies once."""
    machine.with_reports()
    write_json(tmp_path / "result.json")
    (tmp_path / "journal.jsonl").write_text(journal_text())
    machine.roofbench(
        'for flag in "$@"; do case $flag in --benchmark_out=*) out=${flag#*=} ;; --journal=*) journal=${flag#*=} ;;'
        f' esac; done\ncat {tmp_path}/journal.jsonl >"$journal"\nprintf "%s " "$@" >>"$CALLS.flags"\n'
        f'[[ "$*" == *--resume* ]] || kill -9 $$\ncat {tmp_path}/result.json >"$out"'
    )
    nothing = json.dumps([shutil.which("true")])
    config = tmp_path / "night.toml"
    config.write_text(f"[build]\ncommand = {nothing}\n[gate]\ncommand = {nothing}\n[pages]\ncommand = {nothing}\n")
    done = machine.run("nightly", str(config))
    assert done.returncode == 0, done.stderr
    assert done.stderr.endswith("tools/nightly: ok\n")
    first, second = Path(f"{machine.calls}.flags").read_text().split("--resume")[0], machine.flags()[-1]
    assert "--suite=quick --benchmark_out=" in first
    assert "--case_timeout=900" in first
    assert second == "--resume"
    with sqlite3.connect(tmp_path / "history.db") as database:
        kinds = database.execute("SELECT kind FROM roofbench_documents ORDER BY kind").fetchall()
    assert kinds == [("journal",), ("json",)]


@pytest.mark.slow
def test_with_the_real_gate_and_site(chain: Chain) -> None:
    text = chain.config.read_text().split("[gate]")[0]
    chain.config.write_text(text + "[gate]\nbinary = ''\n")
    for day in (1, 2, 3):
        chain.night(day, factor=1 + 0.001 * day)
    assert (chain.folder / "site/index.html").exists()
    assert "3 of 6 nights" in (chain.folder / "nights/2026-01-03T000000Z/gate.md").read_text()
