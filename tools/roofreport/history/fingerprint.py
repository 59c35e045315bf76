# SPDX-License-Identifier: Apache-2.0
"""Which machine and which toolchain a run is of: where one of them changes, a new series begins."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from hashlib import sha256

from roofreport.history.records import Machine, Toolchain
from roofreport.io.contract import Contract
from roofreport.text import printable

# Keys of a context. Not the name of the host: machines of one kind come and go, and so do names of containers.
_MACHINE = (
    "device_kind",
    "device",
    "device_arch",
    "cpu_isa",
    "cpu_count",
    "cpu_caches",
    "gpu_multiprocessors",
    "threads",
    "gpu_driver",
    "cuda_driver",
)
_TOOLCHAIN = ("torch_version", "compiler", "cuda_runtime", "build_type", "allocator")
CONTRACT = "contract_version"

# What a person is told of them, in this order: the fact, and the text around it.
_MACHINE_LABEL = (("device", "{}"), ("threads", "{} threads"), ("gpu_driver", "driver {}"))
_TOOLCHAIN_LABEL = (
    ("torch_version", "LibTorch {}"),
    ("compiler", "{}"),
    ("build_type", "{}"),
    (CONTRACT, "contract {}"),
)
_LONGEST_LABEL = 200


def _id(facts: Mapping[str, str]) -> str:
    return sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:12]


def _label(facts: Mapping[str, str], parts: Sequence[tuple[str, str]]) -> str:
    known = ", ".join(text.format(facts[key]) for key, text in parts if facts.get(key))
    return printable(known, _LONGEST_LABEL) or "unknown"


def _chosen(context: Mapping[str, str], keys: Sequence[str]) -> dict[str, str]:
    """What a context does not have is no part of the fingerprint."""
    return {key: context[key] for key in keys if key in context}


def machine_of(context: Mapping[str, str]) -> Machine:
    facts = _chosen(context, _MACHINE)
    return Machine(_id(facts), _label(facts, _MACHINE_LABEL), facts)


def toolchain_of(context: Mapping[str, str], contract: Contract) -> Toolchain:
    facts = _chosen(context, _TOOLCHAIN) | {CONTRACT: str(contract.version)}
    return Toolchain(_id(facts), _label(facts, _TOOLCHAIN_LABEL), facts)
