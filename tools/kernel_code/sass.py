# SPDX-License-Identifier: Apache-2.0
"""Reads the resources and instructions of kernels with cuobjdump, for each architecture."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path


class DumpError(Exception):
    """The machine code cannot be read here."""


@dataclass(frozen=True)
class Instruction:
    address: int
    name: str  # with its suffixes: LDG.E.128.CONSTANT
    operands: str

    @property
    def registers(self) -> set[int]:
        return {int(number) for number in re.findall(r"\bR(\d+)", self.operands)}

    @property
    def bytes(self) -> int:
        """The width of a load or store."""
        width = re.search(r"\.(8|16|32|64|128)\b", self.name.replace("U8", "8").replace("U16", "16"))
        return int(width[1]) // 8 if width else 4

    @property
    def target(self) -> int | None:
        found = re.search(r"0x([0-9a-f]+)\s*$", self.operands) if self.name.startswith(("BRA", "CALL")) else None
        return int(found[1], 16) if found else None


@dataclass
class Kernel:
    name: str  # "GemvRows<Bf16Weights, 1>"
    arch: str  # "sm_90"
    registers: int
    stack: int  # bytes of a thread
    local: int  # bytes of a thread
    shared: int  # bytes of a block
    most_threads: int = 0  # of a block; 0: not declared
    instructions: list[Instruction] = field(default_factory=list)

    @property
    def function(self) -> str:
        return self.name.partition("<")[0]


def cuobjdump() -> Path:
    """The program from the CUDA toolkit, or from Triton, which PyTorch's CUDA packages include."""
    on_path = shutil.which("cuobjdump")
    if on_path and shutil.which("nvdisasm"):
        return Path(on_path)
    spec = importlib.util.find_spec("triton")
    for folder in spec.submodule_search_locations or [] if spec else []:
        tool = Path(folder) / "backends" / "nvidia" / "bin" / "cuobjdump"
        if tool.exists() and tool.with_name("nvdisasm").exists():
            return tool
    raise DumpError("no cuobjdump with nvdisasm: the CUDA toolkit and the package triton have them")


def _dump(tool: Path, *arguments: str | Path) -> str:
    path = f"{tool.parent}{os.pathsep}{os.environ.get('PATH', '')}"  # where it looks for nvdisasm
    done = subprocess.run(
        [tool, *arguments], capture_output=True, text=True, check=False, env={**os.environ, "PATH": path}
    )
    if done.returncode:
        raise DumpError(f"{tool.name} failed: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


def _short_names(mangled: list[str]) -> dict[str, str]:
    """Demangled names without namespaces, parameters and return type."""
    done = subprocess.run(["c++filt"], input="\n".join(mangled), capture_output=True, text=True, check=True)
    short = {}
    for symbol, full in zip(mangled, done.stdout.splitlines(), strict=True):
        name = re.sub(r"\(anonymous namespace\)::|\b\w+::", "", full)
        name = name.partition("(")[0]
        short[symbol] = name.removeprefix("void ")
    return short


_ARCH = re.compile(r"^arch = (sm_\w+)$")
_FUNCTION = re.compile(r"^\s*Function (?:: )?(\w+?):?$")
_USAGE = re.compile(r"REG:(\d+) STACK:(\d+) SHARED:(\d+) LOCAL:(\d+)")
_INSTRUCTION = re.compile(r"^\s*/\*([0-9a-f]{4,})\*/\s+(?:@!?U?P\w+\s+)?([A-Z][\w.]*)\s*(.*?)\s*;")
_INFO = re.compile(r"^\.nv\.info\.(\w+)$")
_THREADS = re.compile(r"^\s*Value:\s+0x([0-9a-f]+) 0x([0-9a-f]+) 0x([0-9a-f]+)")


Key = tuple[str, str]  # architecture and mangled name


def _lines(text: str, name: re.Pattern[str]) -> Iterator[tuple[Key, str]]:
    """The lines after those that name an architecture and a function."""
    arch = function = ""
    for line in text.splitlines():
        if found := _ARCH.match(line):
            arch = found[1]
        elif found := name.match(line):
            function = found[1]
        else:
            yield (arch, function), line


def _resources(text: str) -> dict[Key, Kernel]:
    kernels: dict[Key, Kernel] = {}
    for (arch, function), line in _lines(text, _FUNCTION):
        if (found := _USAGE.search(line)) and function:
            registers, stack, shared, local = (int(number) for number in found.groups())
            kernels[arch, function] = Kernel(function, arch, registers, stack, local, shared)
    return kernels


def _add_bounds(text: str, kernels: dict[Key, Kernel]) -> None:
    is_bound = False
    for key, line in _lines(text, _INFO):
        if line.strip().startswith("Attribute:"):
            is_bound = "EIATTR_MAX_THREADS" in line or "EIATTR_REQNTID" in line
        elif is_bound and (found := _THREADS.match(line)):
            x, y, z = (int(number, 16) for number in found.groups())
            kernels[key].most_threads = x * y * z


def _add_instructions(text: str, kernels: dict[Key, Kernel]) -> None:
    for key, line in _lines(text, _FUNCTION):
        if found := _INSTRUCTION.match(line):
            kernels[key].instructions.append(Instruction(int(found[1], 16), found[2], found[3]))


def read_kernels(binary: Path) -> list[Kernel]:
    """All kernels of a library or cubin, sorted by name."""
    tool = cuobjdump()
    kernels = _resources(_dump(tool, "-res-usage", binary))
    if not kernels:
        raise DumpError(f"{binary} has no machine code of a kernel")
    _add_bounds(_dump(tool, "-elf", binary), kernels)
    _add_instructions(_dump(tool, "-sass", binary), kernels)
    names = _short_names(sorted({function for _, function in kernels}))
    for kernel in kernels.values():
        kernel.name = names[kernel.name]
    return sorted(kernels.values(), key=lambda kernel: (kernel.function, kernel.name, kernel.arch))
