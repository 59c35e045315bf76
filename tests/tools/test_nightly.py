# SPDX-License-Identifier: Apache-2.0
"""tools/nightly: the chain of steps, and the results that remain of a run when one of them fails."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from builders import TIMES, header, journal_text, line, scaled, write_json
from machine import Machine
from nightly_runs import message
from nightly_runs.__main__ import main, markdown
from nightly_runs.chain import StepOutcome
from nightly_runs.config import read
from nightly_runs.folders import NightlyRun
from roofreport.errors import UnusableInputError

ROOT = Path(__file__).resolve().parents[2]

# Stands in for tools/bench. The file "orders" holds its next exit status or: refuse, unbuilt, die, wait.
_SUITE = """
import json, os, signal, sys, time
from pathlib import Path

folder = Path(__file__).parent
with (folder / "calls").open("a") as calls:
    calls.write("suite " + " ".join(sys.argv[1:]) + "\\n")
out = Path(next(flag.split("=", 1)[1] for flag in sys.argv if flag.startswith("--benchmark_out=")))
journal = out.with_suffix(".journal.jsonl")
orders = (folder / "orders").read_text().split()
order = orders.pop(0) if orders else "0"
(folder / "orders").write_text(" ".join(orders))
if order == "refuse":
    sys.exit(2)
if order == "unbuilt":
    sys.exit(1)
def copy(source, target):
    target.write_text(source.read_text().replace('"vm"', f'"{out.parent.name}"'))

own = folder / out.name  # the results of this process, if they differ from the others'
own = own if own.exists() else folder / "all.json"
copy(own.with_suffix(".journal.jsonl"), journal)
header, *lines = journal.read_text().splitlines()
if order in ("die", "wait"):
    lines.pop()
journal.write_text("\\n".join([json.dumps(json.loads(header) | {"cases": CASES}), *lines, ""]))
if order == "die":
    os.kill(os.getpid(), signal.SIGKILL)
if order == "wait":
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    (folder / "waits").touch()
    signal.sigwait({signal.SIGTERM})
    sys.exit(143)
copy(own, out)
sys.exit(int(order))
""".replace("CASES", str(len(TIMES)))
# Stands in for another step: logs its arguments, writes --markdown=FILE and, from the file "judged", --json=FILE, exits
# with the status in the file of its name.
_STEP = """#!/bin/sh
cd "$(dirname "$0")"
echo "$*" >>calls
for flag; do
  case $flag in
    --markdown=*) echo '**SLOWER** gemv' >"${flag#*=}" ;;
    --json=*) cp judged "${flag#*=}" 2>/dev/null ;;
  esac
done
exit "$(cat "$1" 2>/dev/null || echo 0)"
"""


class Chain:
    """tools/nightly with stand-ins for all steps except the history."""

    def __init__(self, folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self.capfd = capfd
        self.store = folder / "history.db"
        (folder / "suite.py").write_text(_SUITE)
        step = folder / "step"
        step.write_text(_STEP)
        step.chmod(0o755)
        (folder / "orders").touch()
        (folder / "program").write_text("a program")
        self.measures(1.0)
        self.config = folder / "night.toml"
        self.config.write_text(
            f"keep_nights = 2\n[build]\ncommand = ['{step}', 'build']\n"
            f"[suite]\ncommand = ['{sys.executable}', '-IS', '{folder}/suite.py']\n"
            "flags = ['--suite=quick']\nprocesses = 1\n"
            f"[gate]\ncommand = ['{step}', 'gate']\nbinary = '{folder}/program'\n"
            f"[pages]\ncommand = ['{step}', 'site']\n"
        )

    def measures(self, factor: float, name: str = "all") -> None:
        """The results of all processes, or of the one that writes `name`, relative to the first ones."""
        write_json(self.folder / f"{name}.json", scaled(factor))
        lines = [line(name, time * factor) for name, time in TIMES.items()]
        (self.folder / f"{name}.journal.jsonl").write_text(journal_text(header(), *lines))

    def run(self, *flags: str, status: int = 0) -> str:
        """Its messages."""
        assert main([str(self.config), *flags]) == status
        captured = self.capfd.readouterr()
        assert captured.out == ""
        return captured.err

    def runs_the_suite(self, times: int) -> None:
        self.config.write_text(self.config.read_text().replace("processes = 1", f"processes = {times}"))
        for number in range(2, times + 1):
            self.measures(1 + 0.01 * number, f"result-{number}")

    def night(self, day: int, factor: float = 1.0, status: int = 0) -> str:
        self.measures(factor)
        return self.run(f"--date=2026-01-0{day}", status=status)

    def fails(self, step: str, status: int) -> None:
        (self.folder / step).write_text(str(status))

    def orders(self, *orders: str) -> None:
        (self.folder / "orders").write_text(" ".join(orders))

    def calls(self, step: str = "") -> list[str]:
        return [call for call in (self.folder / "calls").read_text().splitlines() if call.startswith(step)]

    def runs(self) -> list[str]:
        """The dates of the runs in the history."""
        with sqlite3.connect(self.store) as database:
            found = database.execute("SELECT started FROM roofbench_runs ORDER BY started").fetchall()
        return [started[:10] for (started,) in found]

    def folders(self) -> list[str]:
        return sorted(path.name[:10] for path in (self.folder / "nights").iterdir() if path.name[0] == "2")


@pytest.fixture
def chain(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> Chain:
    return Chain(tmp_path, capfd)


def test_each_nightly_run_is_added_and_old_folders_are_deleted(chain: Chain) -> None:
    for day in (1, 2, 3):
        assert chain.night(day, factor=day).endswith("tools/nightly: ok\n")
    assert chain.runs() == ["2026-01-01", "2026-01-02", "2026-01-03"]
    assert chain.folders() == ["2026-01-02", "2026-01-03"]
    build, suite, gate, site = chain.calls()[-4:]
    last = chain.folder / "nights/2026-01-03T000000Z"
    assert build == "build"
    assert suite.startswith(f"suite --suite=quick --benchmark_out={last}/result.json ")
    assert f"--store={chain.store}" in gate
    assert gate.endswith(f" {last}/result.journal.jsonl")
    assert f"--binary={chain.folder}/program --base={chain.folder}/nights/good/roofbench --profile" in gate
    assert site == f"site --store={chain.store} --out={chain.folder}/site"
    assert {path.name for path in last.iterdir()} >= {"suite.log", "add.log", "gate.log", "site.log", "gate.md"}
    assert "are in the history already" in chain.night(3, factor=2.0)
    assert len(chain.runs()) == 3, "a date is measured once"


def test_each_process_is_a_run_in_the_history(chain: Chain) -> None:
    chain.runs_the_suite(3)
    chain.orders("0", "1", "0")
    assert chain.night(1, status=1).endswith("suite: needs a look, some cases failed\n")
    assert chain.runs() == ["2026-01-01"] * 3
    folder = chain.folder / "nights/2026-01-01T000000Z"
    records = " ".join(f"{folder}/result{number}.journal.jsonl" for number in ("", "-2", "-3"))
    assert chain.calls("gate")[0].endswith(f" {records}")
    assert "are in the history already" in chain.night(1)


def test_a_process_that_dies_is_resumed_before_the_next_one(chain: Chain) -> None:
    chain.runs_the_suite(3)
    chain.orders("0", "die", "die", "die")
    chain.night(1, status=2)
    assert not chain.store.exists(), "an incomplete run is not added"
    chain.night(1)
    words = [word for call in chain.calls("suite") for word in call.split()]
    suites = [Path(word).name for word in words if word.startswith("--benchmark_out=")]
    assert suites == ["result.json", *["result-2.json"] * 4, "result-3.json"]
    assert [" --resume " in call for call in chain.calls("suite")] == [False, False, True, True, True, False]
    assert chain.runs() == ["2026-01-01"] * 3


def test_the_next_run_resumes_the_process_that_died_and_starts_no_further_ones(chain: Chain) -> None:
    chain.runs_the_suite(3)
    chain.orders("0", "die", "die", "die")
    assert "suite: FAILED, exit status 137, see " in chain.night(1, status=2)
    for number in (2, 3):
        chain.measures(2 + 0.01 * number, f"result-{number}")
    chain.night(2, factor=2.0)
    assert chain.runs() == ["2026-01-01"] * 2 + ["2026-01-02"] * 3


def test_an_incomplete_run_that_cannot_be_resumed_is_added_as_it_is(chain: Chain) -> None:
    chain.orders("die", "die", "die", "refuse", "0")
    chain.night(1, status=2)
    assert "keeping its incomplete results" in chain.night(2, factor=2.0)
    assert chain.runs() == ["2026-01-01", "2026-01-02"]


def test_a_failed_build_is_named_and_nothing_is_measured(chain: Chain) -> None:
    chain.fails("build", 3)
    messages = chain.night(1, status=2)
    assert "tools/nightly: build: FAILED, exit status 3, see " in messages
    assert "suite: skipped, because of build; gate: skipped, because of suite" in messages
    assert chain.calls()[-1].startswith("site")
    assert not chain.store.exists()
    for day in (2, 3):
        chain.night(day, status=2)
    assert chain.folders() == ["2026-01-02", "2026-01-03"]


def test_a_suite_that_measures_nothing_has_failed(chain: Chain) -> None:
    """tools/bench exits with 1 if its build fails, as it does if cases fail."""
    chain.orders("unbuilt")
    messages = chain.night(1, status=2)
    assert "suite: FAILED, exit status 1, see " in messages
    assert "gate: skipped, because of suite" in messages


def test_the_next_run_adds_results_that_could_not_be_added(chain: Chain) -> None:
    chain.store.write_text("something else")
    messages = chain.night(1, status=2)
    assert "tools/nightly: add: FAILED, exit status 2, see " in messages
    assert "the results stay in " in messages
    assert "gate: skipped, because of add; site: skipped, because of add" in messages
    chain.store.unlink()
    chain.night(2, factor=2.0)
    assert chain.runs() == ["2026-01-01", "2026-01-02"]


def test_an_alarm_of_the_gate_is_reported_and_the_site_is_written(chain: Chain, tmp_path: Path) -> None:
    chain.fails("gate", 1)
    messages = chain.run("--date=2026-01-01", f"--summary={tmp_path}/summary.md", status=1)
    assert messages.endswith("tools/nightly: gate: needs a look, something got worse\n")
    assert chain.calls()[-1].startswith("site")
    summary = (tmp_path / "summary.md").read_text()
    assert "## Nightly run of 2026-01-01 00:00 UTC" in summary
    assert "| gate | alarm | something got worse |" in summary
    assert "**SLOWER** gemv" in summary
    assert not (chain.folder / "nights/good/roofbench").exists(), "not a base for the next run"


@pytest.mark.parametrize("step", ["gate", "site"])
def test_a_step_that_fails_is_named_and_loses_nothing(chain: Chain, step: str) -> None:
    chain.fails(step, 2)
    assert f"tools/nightly: {step}: FAILED, exit status 2, see " in chain.night(1, status=2)
    assert chain.calls()[-1].startswith("site")
    assert chain.runs() == ["2026-01-01"]


def test_a_missing_command_is_a_failed_step(chain: Chain) -> None:
    chain.config.write_text(chain.config.read_text().replace(f"'{sys.executable}'", "'gone'"))
    messages = chain.night(1, status=2)
    assert "cannot start gone: No such file or directory" in messages
    assert "suite: FAILED, exit status 127" in messages


def test_two_runs_at_once_are_refused(chain: Chain) -> None:
    (chain.folder / "nights").mkdir()
    with (chain.folder / "nights/lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert "another nightly run is using it" in chain.run(status=2)


def test_a_signal_reaches_the_suite_and_the_next_run_resumes(chain: Chain) -> None:
    chain.orders("wait")
    isolated = str(ROOT / "tools/isolated.py")
    command = [sys.executable, "-I", isolated, "nightly_runs", str(chain.config), "--date=2026-01-01"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    while not (chain.folder / "waits").exists():
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    _, messages = process.communicate()
    assert process.returncode == 128 + signal.SIGTERM
    assert "interrupted; the next nightly run resumes this one" in messages
    chain.run("--date=2026-01-01")
    assert chain.runs() == ["2026-01-01"]
    assert " --resume " in chain.calls("suite")[-1]


class Hook:
    """A webhook: what it was sent, and what it answers."""

    def __init__(self) -> None:
        self.bodies: list[dict[str, Any]] = []
        self.status = 200
        self.breaks = ""  # an answer of its own: the bytes after its status
        self.drips = threading.Event()  # set: one that never ends
        self.closed = threading.Event()
        hook = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                hook.bodies.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                self.send_response(hook.status)
                self.flush_headers()
                if hook.drips.is_set():
                    while not hook.closed.wait(0.01):
                        self.wfile.write(b"X-A: b\r\n")
                    return
                if hook.breaks:
                    self.wfile.write(hook.breaks.encode())
                    return
                self.send_header("Location", "http://127.0.0.1:9/")
                self.end_headers()
                self.wfile.write(b"no such\x1b channel")

            def log_message(self, format: str, *values: object) -> None:  # noqa: A002
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.host = f"127.0.0.1:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,))
        self.thread.start()

    def close(self) -> None:
        self.closed.set()
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


@pytest.fixture
def hook(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hook]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    made = Hook()
    monkeypatch.setenv("ROOFBENCH_WEBHOOK", f"http://{made.host}/services/secret")
    yield made
    made.close()


_JUDGED: dict[str, list[dict[str, Any]]] = {
    "nights": [
        {
            "machine": "EPYC <8>",
            "revision": "abcdef0123456789",
            "cases": 40,
            "notes": ["nothing was run again"],
            "found": [{"kind": "slower", "case": f"gemv/n:{n}", "effect": 0.12, "text": "+12.0 %"} for n in range(25)],
        }
    ]
}


_JUDGED["nights"][0]["found"][0]["series"] = "0f/"


def test_an_alarm_is_sent_to_a_webhook_as_slack_takes_it(chain: Chain, hook: Hook) -> None:
    chain.config.write_text(chain.config.read_text() + "[message]\nsite = 'https://example.org/a&b/'\n")
    chain.night(1)
    assert not hook.bodies, "nothing needs a look"
    (chain.folder / "judged").write_text(json.dumps(_JUDGED))
    chain.fails("gate", 1)
    assert chain.night(2, status=1).endswith("tools/nightly: gate: needs a look, something got worse\n")
    (body,) = hook.bodies
    lines = body["text"].split("\n")
    assert lines[:4] == [
        "*roofbench*, nightly run of 2026-01-02 00:00 UTC",
        "gate: *alarm* something got worse",
        "EPYC &lt;8&gt;, commit abcdef012345, 40 cases",
        "note: nothing was run again",
    ]
    assert lines[4] == "• *SLOWER* <https://example.org/a&amp;b/case.html#series=0f%2F|gemv/n:0>: +12.0 %"
    assert lines[5] == "• *SLOWER* gemv/n:1: +12.0 %", "of a gate that names no series"
    assert lines[-1] == "and 5 more findings"


def test_every_run_is_sent_as_json(chain: Chain, hook: Hook) -> None:
    site = "site = 'https://example.org'"
    chain.config.write_text(chain.config.read_text() + f"[message]\nformat = 'json'\nwhen = 'always'\n{site}\n")
    (chain.folder / "judged").write_text(json.dumps(_JUDGED))
    assert chain.night(1).endswith("tools/nightly: ok; gate: ok, nothing was run again\n")
    (body,) = hook.bodies
    assert (body["schema"], body["night"]) == ("roofbench-night-1", "2026-01-01T00:00:00+00:00")
    assert [one["step"] for one in body["steps"]] == ["build", "suite", "add", "gate", "site"]
    assert {one["state"] for one in body["steps"]} == {"ok"}
    first = body["gate"]["nights"][0]["found"][0]
    assert first["page"] == "https://example.org/case.html#series=0f%2F" and first["case"] == "gemv/n:0"
    chain.fails("gate", 2)
    chain.night(2, status=2)
    assert hook.bodies[1]["gate"] is None


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (404, "answered 404 Not Found: no such\\x1b channel"),
        (500, "answered 500 Internal Server Error"),
        (302, "answered 302 Found"),
        (0, "Connection refused"),
    ],
)
def test_a_webhook_that_fails_is_reported_and_changes_nothing(chain: Chain, hook: Hook, status: int, said: str) -> None:
    hook.status = status
    if not status:
        hook.server.socket.close()
    chain.config.write_text(chain.config.read_text() + "[message]\nwhen = 'always'\n")
    messages = chain.night(1)
    last = messages.splitlines()[-1]
    assert last.startswith(f"tools/nightly: message: not sent, {hook.host}")
    assert said in last
    assert "secret" not in messages and "\x1b" not in messages
    assert chain.calls()[-1].startswith("site")


@pytest.mark.parametrize("status", [200, 500])
@pytest.mark.parametrize(
    "answer",
    [
        "Transfer-Encoding: chunked\r\n\r\n",
        "Transfer-Encoding: chunked\r\n\r\n20\r\nno",
        "Transfer-Encoding: chunked\r\n\r\nzz\r\nno\r\n",
        "Content-Length: 20\r\n\r\nno",
        "X-A: " + "x" * 70_000 + "\r\n\r\n",
    ],
)
def test_an_answer_that_breaks_off_changes_nothing(hook: Hook, answer: str, status: int) -> None:
    hook.status, hook.breaks = status, answer
    lost = message.send(f"http://{hook.host}/secret", {})
    assert lost == "" if status == 200 and len(answer) < 1000 else lost.startswith(hook.host), lost
    assert "secret" not in lost


def test_a_message_has_one_limit_of_time(chain: Chain, hook: Hook, monkeypatch: pytest.MonkeyPatch) -> None:
    """However often a byte arrives, the next night finds no lock."""
    monkeypatch.setattr(message, "TIMEOUT_S", 0.3)
    hook.drips.set()
    chain.config.write_text(chain.config.read_text() + "[message]\nwhen = 'always'\n")
    last = chain.night(1).splitlines()[-1]
    assert last == f"tools/nightly: message: not sent, {hook.host}: no complete answer within 0.3 s"


@pytest.mark.parametrize("judged", ["[]", '{"nights": 3}', '{"nights": [{"machine": 3}]}'])
def test_findings_of_another_form_are_none(chain: Chain, hook: Hook, judged: str) -> None:
    chain.config.write_text(chain.config.read_text() + "[message]\nwhen = 'always'\n")
    (chain.folder / "judged").write_text(judged)
    assert chain.night(1).endswith("tools/nightly: ok\n")
    assert len(hook.bodies) == 1


@pytest.mark.parametrize(
    "url", ["http://a b/secret", "http://a:secret/", "http://[secret/", "http:///secret", "x:secret"]
)
def test_an_invalid_address_stays_secret(url: str) -> None:
    lost = message.send(url, {})
    assert lost and "/secret" not in lost


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[message]\nurl = 'file:///etc/passwd'", "must begin with http:// or https://"),
        ("[message]\nsite = 'javascript:1'", "message.site must begin with http:// or https://"),
        ("[message]\nformat = 'teams'", "message.format must be slack or json"),
        ("[message]\nwhen = 'never'", "message.when must be alarm or always"),
        ("stoer = 'a'", "stoer is not a setting; there are store, nights, site"),
        ("[suite]\nflag = []", "suite.flag is not a setting"),
        ("suite = 3", "suite is not a setting; "),
        ("[store]\na = 1", "store.a is not a setting"),
        ("keep_nights = 0", "keep_nights must be a number from 1"),
        ("keep_nights = true", "keep_nights must be a number from 1"),
        ("[suite]\nflags = '--suite=quick'", "suite.flags must be a list of texts"),
        ("[build]\ncommand = []", "build.command is empty"),
        ("store = 3", "store must be a text"),
        ("store = ", "invalid TOML"),
        ('"\\u001b[2J" = 1', "is not a setting"),
        ("a = " + "[" * 5000, "invalid TOML"),
        ("a" + ".a" * 100_000 + " = 1", "has more than 16 KiB"),
        ("store = ''", "store is empty"),
        ("nights = ''", "nights is empty"),
    ],
)
def test_an_invalid_configuration_is_refused(text: str, why: str, tmp_path: Path) -> None:
    (tmp_path / "night.toml").write_text(text)
    with pytest.raises(UnusableInputError) as refused:
        read(tmp_path / "night.toml")
    assert why in str(refused.value)
    assert "\x1b" not in str(refused.value)
    with pytest.raises(UnusableInputError, match=r"nowhere\.toml: No such file"):
        read(tmp_path / "nowhere.toml")
    os.mkfifo(tmp_path / "pipe")
    for nothing in ("pipe", "."):
        with pytest.raises(UnusableInputError, match="is not a file"):
            read(tmp_path / nothing)


def test_the_example_is_a_configuration_with_every_setting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("ROOFBENCH_STORE", raising=False)
    with pytest.raises(SystemExit) as end:
        main(["--example"])
    assert end.value.code == 0
    (tmp_path / "night.toml").write_text(capsys.readouterr().out)
    config = read(tmp_path / "night.toml")
    assert (config.store, config.site) == (f"{tmp_path}/history.db", tmp_path / "site")
    monkeypatch.setenv("ROOFBENCH_STORE", "postgresql://a/b")
    assert read(tmp_path / "night.toml").store == "postgresql://a/b"


def test_the_summary_escapes_untrusted_text(tmp_path: Path) -> None:
    run = NightlyRun(tmp_path / "2026-01-01T000000Z")
    text = markdown(run, [StepOutcome("add", "failed", "a|b <img src=x> [x](y) `c`\x1b[2J\n# d")])
    row = next(line for line in text.splitlines() if line.startswith("| add"))
    assert all(escaped in row for escaped in ("\\|", "\\<img", "\\`c\\`"))
    assert "\x1b" not in text
    assert not any(line.startswith("# ") for line in text.splitlines())


def test_the_real_bench_is_resumed_after_it_died(machine: Machine, tmp_path: Path) -> None:
    machine.with_reports()
    write_json(tmp_path / "result.json")
    lines = [line(name, time) for name, time in TIMES.items()]
    (tmp_path / "journal.jsonl").write_text(journal_text(header() | {"cases": len(lines)}, *lines))
    machine.roofbench(
        'for flag in "$@"; do case $flag in --benchmark_out=*) out=${flag#*=} ;; --journal=*) journal=${flag#*=} ;;'
        f' esac; done\ncat {tmp_path}/journal.jsonl >"$journal"\nprintf "%s " "$@" >>"$CALLS.flags"\n'
        '[[ "$*" == *--resume* ]] || { sed -i "$ d" "$journal"; kill -9 $$; }\n'
        f'cat {tmp_path}/result.json >"$out"'
    )
    nothing = json.dumps([shutil.which("true")])
    config = tmp_path / "night.toml"
    config.write_text(
        f"[build]\ncommand = {nothing}\n[suite]\nprocesses = 1\n"
        f"[gate]\ncommand = {nothing}\n[pages]\ncommand = {nothing}\n"
    )
    done = machine.run("nightly", str(config))
    assert done.returncode == 0, done.stderr
    assert done.stderr.endswith("tools/nightly: ok\n")
    first, second = Path(f"{machine.calls}.flags").read_text().split("--resume")
    files = first.partition("--suite=quick ")[2].split(" --results=")[0]
    assert files.startswith("--benchmark_out=") and second.strip() == files
    with sqlite3.connect(tmp_path / "history.db") as database:
        (name,) = database.execute("SELECT name FROM roofbench_runs").fetchone()
    assert name == "result.journal.jsonl"


@pytest.mark.slow
def test_with_the_real_gate_and_site(chain: Chain) -> None:
    text = chain.config.read_text().split("[gate]")[0]
    chain.config.write_text(text + "[gate]\nbinary = ''\n")
    for day in (1, 2):
        chain.night(day, factor=1 + 0.001 * day)
    assert (chain.folder / "site/index.html").exists()
    assert "2 of 6 nights" in (chain.folder / "nights/2026-01-02T000000Z/gate.md").read_text()
