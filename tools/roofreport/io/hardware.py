# SPDX-License-Identifier: Apache-2.0
"""Which facts of a context are the hardware, and which are settings."""

from __future__ import annotations

from roofreport.io.result import Result
from roofreport.text import printable

HARDWARE = ("device_kind", "device", "device_arch", "cpu_isa", "cpu_count", "cpu_caches")
SETTINGS = (
    "threads",
    "build_type",
    "torch_version",
    "allocator",
    "check",
    "seed",
    "cpu_affinity",
    "cpu_governor",
    "huge_pages",
)


def _differing(base: Result, new: Result, keys: tuple[str, ...]) -> list[str]:
    return [
        f"{key}: {printable(base.context[key], 60)} / {printable(new.context[key], 60)}"
        for key in keys
        if key in base.context and key in new.context and base.context[key] != new.context[key]
    ]


def differences(base: Result, new: Result, with_host: bool = False) -> list[str]:
    """The facts of the hardware that differ: "device: A / B". The host's name tells machines of one kind apart."""
    found = _differing(base, new, HARDWARE)
    if with_host and base.host and new.host and base.host != new.host:
        found.append(f"host_name: {printable(base.host, 60)} / {printable(new.host, 60)}")
    return found


def other_settings(base: Result, new: Result) -> list[str]:
    """The settings that differ: a comparison of them is allowed, and said."""
    return _differing(base, new, SETTINGS)
