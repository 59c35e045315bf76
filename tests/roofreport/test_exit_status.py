# SPDX-License-Identifier: Apache-2.0
"""Signals that ask a command to end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

TOOLS = Path(__file__).resolve().parents[2] / "tools"

# It says that it runs, waits for a signal, and then writes what it has. Blocked: one that arrived between that line and
# signal.pause() would wait for the next.
PROGRAM = """
import pathlib, signal, sys
ending = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
signal.pthread_sigmask(signal.SIG_BLOCK, ending)
print("runs", flush=True)
signal.sigwait(ending)
pathlib.Path(sys.argv[1]).write_text("whole")
sys.exit(7)
"""
BY_STATUS = """
import sys
from roofreport.exit_status import ended, status_of
sys.exit(ended("tools/it", lambda: status_of(sys.argv[1:])))
"""
BY_GPU_CHECK = """
import sys
from gpu_checks import __main__, processes
__main__.end_in_order()
processes.run(sys.argv[1:], 600, watch=lambda output: print(output, end="", flush=True))
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("how", [BY_STATUS, BY_GPU_CHECK])
def test_a_program_ends_in_order_and_is_waited_for(how: str, number: signal.Signals, tmp_path: Path) -> None:
    written = tmp_path / "written"
    command = subprocess.Popen(
        [sys.executable, "-c", how, sys.executable, "-c", PROGRAM, str(written)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=os.environ | {"PYTHONPATH": str(TOOLS)},
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),  # nohup ignores it
    )
    assert command.stdout is not None
    assert command.stdout.readline() == b"runs\n"
    os.kill(command.pid, number)
    command.wait(timeout=600)
    assert written.read_text() == "whole"
    if how is BY_STATUS:
        assert command.returncode == 128 + number
