# SPDX-License-Identifier: Apache-2.0
"""A machine of stand-ins for tools/setup and tools/bench."""

from __future__ import annotations

import hashlib
import os
import pty
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path

TOOLS = Path(__file__).resolve().parents[3] / "tools"

REAL_COMMANDS = ("awk", "bash", "cat", "cut", "date", "dirname", "env", "grep", "head", "id", "mkdir", "rm", "sed")
MORE_COMMANDS = ("mktemp", "sha256sum", "sleep", "tail", "uname")


class Machine:
    """A complete project folder, and a PATH with stand-ins only."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "project"
        self.bin = folder / "bin"
        self.calls = folder / "calls"
        self.bin.mkdir()
        shutil.copytree(TOOLS, self.root / "tools", ignore=shutil.ignore_patterns("__pycache__"))
        for name in REAL_COMMANDS + MORE_COMMANDS:
            found = shutil.which(name)
            assert found, name
            (self.bin / name).symlink_to(found)
        for name in ("cmake", "ninja", "g++", "git", "ccache"):
            self.command(name, "exit 0")
        self.command("dpkg-query", 'shift 3; for package in "$@"; do echo "$package=installed"; done')

        (self.root / ".venv/bin").mkdir(parents=True)
        # Not a link: an isolated Python finds its packages by its own path.
        self.script(self.root / ".venv/bin/python", f'exec "{sys.executable}" "$@"')
        parts = ("report", "history", "tests", "oracles", "torch")
        requirements = [self.root / f"tools/requirements-{part}.txt" for part in parts]
        digest = hashlib.sha256(b"".join(path.read_bytes() for path in requirements)).hexdigest()
        self.stamp = self.root / ".venv/.roofbench"
        self.stamp.write_text(f"{digest} pypi\n")

        (self.root / "build/release/bin").mkdir(parents=True)
        (self.root / "build/release/build.ninja").touch()
        (self.root / "build/release/torch_origin").write_text("pypi\n")
        self.roofbench('printf "%s\\n" "$@" >"$CALLS.flags"')

    def script(self, path: Path, body: str) -> None:
        path.unlink(missing_ok=True)
        path.write_text(f"#!{shutil.which('bash')}\n{body}\n")
        path.chmod(0o755)

    def command(self, name: str, body: str) -> None:
        self.script(self.bin / name, f'printf "%s\\n" "{name} $*" >>"$CALLS"\n{body}')

    def roofbench(self, body: str) -> None:
        self.script(self.root / "build/release/bin/roofbench", body)

    def with_reports(self) -> None:
        """Makes tools/report work."""
        (self.bin / "readlink").symlink_to(shutil.which("readlink") or "/usr/bin/readlink")

    def environment(self) -> dict[str, str]:
        return {"PATH": str(self.bin), "CALLS": str(self.calls)}

    def run(self, tool: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(self.root / "tools" / tool), *arguments],
            cwd=self.root,
            env=self.environment() | environment,
            capture_output=True,
            text=True,
            timeout=600,
        )

    def flags(self) -> list[str]:
        return Path(f"{self.calls}.flags").read_text().split()

    def called(self, *, ignoring: str = "dpkg-query") -> list[str]:
        return [line for line in self.calls.read_text().splitlines() if not line.startswith(ignoring)]

    def run_on_a_terminal(self, answer: str, tool: str, *arguments: str, **environment: str) -> tuple[int, str]:
        """Types `answer` when asked. Returns the exit status and the text on the terminal."""
        ours, theirs = pty.openpty()
        process = subprocess.Popen(
            [str(self.root / "tools" / tool), *arguments],
            cwd=self.root,
            env=self.environment() | environment,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)
        shown, deadline = "", time.monotonic() + 600
        try:
            while time.monotonic() < deadline:
                if not select.select([ours], [], [], 1)[0]:
                    continue
                try:
                    shown += os.read(ours, 4096).decode(errors="replace")
                except OSError:  # the terminal is closed
                    break
                if answer and "[y/N]" in shown:
                    os.write(ours, answer.encode())
                    answer = ""
            return process.wait(timeout=600), shown
        finally:
            process.kill()
            process.wait()
            os.close(ours)
