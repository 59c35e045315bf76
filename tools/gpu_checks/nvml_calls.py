# SPDX-License-Identifier: Apache-2.0
"""Every call of the driver's management library that the program makes, with its return code: a program of its own,
because a call may hang. Prints JSON; a code of null is a function that this driver lacks.
"""

from __future__ import annotations

import ctypes
import json
import sys
from collections.abc import Callable, Sequence
from typing import Any

LIBRARY = "libnvidia-ml.so.1"
PROCESSES = 128
SM, MEMORY, POWER, THERMAL = 1, 2, 0, 1  # kinds of clocks, and of limits


class Field(ctypes.Structure):
    _fields_ = (
        ("field", ctypes.c_uint),
        ("scope", ctypes.c_uint),
        ("timestamp", ctypes.c_longlong),
        ("latency", ctypes.c_longlong),
        ("type", ctypes.c_int),
        ("status", ctypes.c_int),
        ("value", ctypes.c_ulonglong),
    )


def power_now() -> Field:
    return Field(field=186)


def most_processes() -> ctypes.c_uint:
    return ctypes.c_uint(PROCESSES)


Number, Wide, Pair = ctypes.c_uint, ctypes.c_ulonglong, ctypes.c_ulonglong * 2
Makes = Sequence[Callable[[], Any]]
# A function of a device, what it takes, and what it writes.
CALLS: tuple[tuple[str, Sequence[int], Makes], ...] = (
    ("nvmlDeviceGetClockInfo", (SM,), (Number,)),
    ("nvmlDeviceGetClockInfo", (MEMORY,), (Number,)),
    ("nvmlDeviceGetMaxClockInfo", (SM,), (Number,)),
    ("nvmlDeviceGetMaxClockInfo", (MEMORY,), (Number,)),
    ("nvmlDeviceGetApplicationsClock", (SM,), (Number,)),
    ("nvmlDeviceGetDefaultApplicationsClock", (SM,), (Number,)),
    ("nvmlDeviceGetFieldValues", (1,), (power_now,)),
    ("nvmlDeviceGetPowerUsage", (), (Number,)),
    ("nvmlDeviceGetEnforcedPowerLimit", (), (Number,)),
    ("nvmlDeviceGetCurrentClocksEventReasons", (), (Wide,)),
    ("nvmlDeviceGetCurrentClocksThrottleReasons", (), (Wide,)),
    ("nvmlDeviceGetViolationStatus", (POWER,), (Pair,)),
    ("nvmlDeviceGetViolationStatus", (THERMAL,), (Pair,)),
    ("nvmlDeviceGetTotalEnergyConsumption", (), (Wide,)),
    ("nvmlDeviceGetPersistenceMode", (), (Number,)),
    ("nvmlDeviceGetEccMode", (), (Number, Number)),
    ("nvmlDeviceGetMigMode", (), (Number, Number)),
    ("nvmlDeviceGetComputeRunningProcesses_v3", (), (most_processes, ctypes.c_ubyte * (24 * PROCESSES))),
)


def value(written: Any) -> Any:
    if isinstance(written, Field):
        return {"status": written.status, "type": written.type, "value": written.value}
    if isinstance(written, ctypes.Array):
        return list(written) if len(written) == 2 else None
    return written.value


def call(nvml: ctypes.CDLL, name: str, *arguments: Any) -> int | None:
    function = getattr(nvml, name, None)
    return None if function is None else int(function(*arguments))


def of_device(nvml: ctypes.CDLL, index: int) -> dict[str, Any]:
    device = ctypes.c_void_p()
    handle = "nvmlDeviceGetHandleByIndex_v2"
    found: dict[str, Any] = {handle: call(nvml, handle, index, ctypes.byref(device))}
    if found[handle] != 0:
        return found
    for name, given, makes in CALLS:
        written = [make() for make in makes]
        code = call(nvml, name, device, *given, *map(ctypes.byref, written))
        values = [value(one) for one in written] if code == 0 else []
        found[f"{name}({', '.join(map(str, given))})"] = {"code": code, "values": values}
    return found


def answers(library: str) -> dict[str, Any]:
    nvml = ctypes.CDLL(library)
    found: dict[str, Any] = {"nvmlInit_v2": call(nvml, "nvmlInit_v2")}
    if found["nvmlInit_v2"] != 0:
        return found
    count = ctypes.c_uint()
    found["nvmlDeviceGetCount_v2"] = call(nvml, "nvmlDeviceGetCount_v2", ctypes.byref(count))
    version = ctypes.create_string_buffer(80)
    found["nvmlSystemGetDriverVersion"] = call(nvml, "nvmlSystemGetDriverVersion", version, 80)
    found["driver"] = version.value.decode(errors="replace")
    found["devices"] = [of_device(nvml, index) for index in range(count.value)]
    found["nvmlShutdown"] = call(nvml, "nvmlShutdown")
    return found


if __name__ == "__main__":
    print(json.dumps(answers(sys.argv[1] if len(sys.argv) > 1 else LIBRARY)))
