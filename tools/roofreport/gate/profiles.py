# SPDX-License-Identifier: Apache-2.0
"""Profiles of a slower case: of the last good program, and of this night's."""

from __future__ import annotations

import tempfile
from pathlib import Path

from roofreport import files
from roofreport.compare.command import Command, parse, run, sampling_flags
from roofreport.compare.rerun import flags_of
from roofreport.errors import UnusableInputError
from roofreport.gate.second_run import Programs
from roofreport.gate.verdicts import Finding
from roofreport.io.result import State

_SAMPLING_S = 0.4
_TIMEOUT_S = 300  # of a case


def recorded(programs: Programs, finding: Finding) -> list[Path]:
    """The folders of --profile: its case in the old program, and in the new one. Raises UnusableInputError."""
    with files.explained(str(programs.folder)):
        programs.folder.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(prefix="profiles-", dir=programs.folder))
    sides = (("old", programs.base), ("new", programs.new))
    case = [finding.series.case]
    flags = (*flags_of(finding.run, case, programs.flags), *sampling_flags(case, _SAMPLING_S))
    return [_recorded(parse(program).with_flags(*flags), made / side) for side, program in sides]


def _recorded(program: Command, folder: Path) -> Path:
    flags = (f"--case_timeout={_TIMEOUT_S}", f"--profile={folder}")
    done = run(program.with_flags(*flags), folder.with_suffix(".json"))
    if done.result is None:
        raise UnusableInputError(f"the {folder.name} program: {done.how}")
    reason = next((one.why_not for one in done.result.cases if one.state is not State.MEASURED), "")
    if reason or not any(folder.glob("*.json")):
        raise UnusableInputError(f"the {folder.name} program: {reason or 'it wrote no profile'}")
    return folder
