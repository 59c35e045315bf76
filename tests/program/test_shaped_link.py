# SPDX-License-Identifier: Apache-2.0
"""Two nodes, each a network namespace, on a link of 1 Gbit/s and 1 ms: the fit between the samples finds both.

tc shapes the rate on each side. Frames count there with their headers, so that of a packet of 1500 bytes, 1448 are
bytes of a message: 1500 less the headers of IP and of TCP with time stamps. The delay is netem's where the kernel has
it. Elsewhere the link is a pair of tun devices, between which a thread carries packets as a long wire does.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import select
import struct
import subprocess
import threading
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path

import pytest
from built_program import PROGRAM, ROOT

pytestmark = pytest.mark.nightly

TORCHRUN = ROOT / ".venv" / "bin" / "torchrun"
NODES = ("roofbench-a", "roofbench-b")
ADDRESSES = ("10.213.7.1", "10.213.7.2")
DELAY = 1e-3
RATE = 1e9 / 8
PAYLOAD = 1448
SHAPE = "rate 1gbit burst 128kb latency 100ms"

# From <linux/if_tun.h>: packets of up to 64 KiB, which the system cuts to frames itself, cost few system calls.
TUNSETIFF, TUNSETOFFLOAD = 0x400454CA, 0x400454D0
IFF_TUN, IFF_NO_PI, IFF_VNET_HDR = 0x0001, 0x1000, 0x4000
TUN_F_CSUM, TUN_F_TSO4 = 0x01, 0x02
MOST = 1 << 17


def call(command: str) -> None:
    subprocess.run(command.split(), check=True, capture_output=True, text=True)


def devices_of(kind: str) -> tuple[str, str]:
    """A device lives on for a moment when its namespace is gone."""
    return f"rb-{kind}-a", f"rb-{kind}-b"


def tun(name: str) -> int:
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(device, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TUN | IFF_NO_PI | IFF_VNET_HDR))
    fcntl.ioctl(device, TUNSETOFFLOAD, TUN_F_CSUM | TUN_F_TSO4)
    return device


def carry(ends: tuple[int, int], delay: float, stop: int) -> None:
    """Packets from each end to the other, `delay` later, until `stop` can be read."""
    Path("/proc/self/timerslack_ns").write_text("1")
    early = 100e-6  # a sleeping thread wakes up late
    on_the_way: deque[tuple[float, int, bytes]] = deque()
    while True:
        wait = max(0.0, on_the_way[0][0] - time.perf_counter() - early) if on_the_way else None
        ready, _, _ = select.select([*ends, stop], [], [], wait)
        if stop in ready:
            return
        for end, other in (ends, ends[::-1]):
            with contextlib.suppress(BlockingIOError):
                while end in ready:
                    on_the_way.append((time.perf_counter() + delay, other, os.read(end, MOST)))
        while on_the_way and on_the_way[0][0] <= time.perf_counter():
            _, end, packet = on_the_way.popleft()
            os.write(end, packet)


@contextlib.contextmanager
def link(kind: str, delay: float) -> Iterator[float]:
    """Joins the namespaces; the share of the rate that is left for messages."""
    devices = devices_of(kind)
    with contextlib.ExitStack() as stack:
        for node in NODES:
            try:
                call(f"ip netns add {node}")
            except (OSError, subprocess.CalledProcessError) as error:
                pytest.skip(f"network namespaces need ip and root: {error}")
            stack.callback(call, f"ip netns delete {node}")
        if kind == "netem":
            call(f"ip link add {devices[0]} type veth peer name {devices[1]}")
        else:
            ends = (tun(devices[0]), tun(devices[1]))
            for end in ends:
                stack.callback(os.close, end)
        for node, device, address in zip(NODES, devices, ADDRESSES, strict=True):
            call(f"ip link set {device} netns {node}")
            inside = f"ip netns exec {node}"
            call(f"{inside} ip address add {address}/24 dev {device}")
            for up in (device, "lo"):
                call(f"{inside} ip link set {up} up")
            call(f"{inside} tc qdisc add dev {device} root handle 1: tbf {SHAPE}")
            if kind == "netem":
                try:
                    call(f"{inside} tc qdisc add dev {device} parent 1:1 netem delay {1e6 * delay:.0f}us limit 10000")
                except subprocess.CalledProcessError as error:
                    pytest.skip(f"this kernel has no netem: {error.stderr.strip()}")
        if kind == "tun":
            stop, stopped = os.pipe()
            wire = threading.Thread(target=carry, args=(ends, delay, stop))
            wire.start()
            for end in (stop, stopped):
                stack.callback(os.close, end)
            stack.callback(wire.join)
            stack.callback(os.write, stopped, b".")
        yield PAYLOAD / (1500 if kind == "tun" else 1514)


def measure(kind: str, out: Path) -> dict[str, float]:
    """The row of a run of two ranks on the link, which torchrun starts as two nodes."""
    case = "^all_reduce/impl:gloo/ranks:2/dtype:fp32/bytes:16777216$"
    sampling = ("--benchmark_min_time=8x", "--warmup_iters=1", "--roof_share=0.5", "--rank_timeout=120")
    flags = (f"--benchmark_filter={case}", "--axis=all_reduce.bytes=16777216", "--axis=all_reduce.ranks=2", *sampling)
    place = ("--nnodes=2", "--nproc_per_node=1", f"--master_addr={ADDRESSES[0]}", "--master_port=29500")
    command = [str(TORCHRUN), "--no-python", *place]
    nodes = [
        subprocess.Popen(
            [
                "ip",
                "netns",
                "exec",
                node,
                *command,
                f"--node_rank={rank}",
                str(PROGRAM),
                *flags,
                f"--benchmark_out={out}",
            ],
            env={**os.environ, "GLOO_SOCKET_IFNAME": devices_of(kind)[rank]},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank, node in enumerate(NODES)
    ]
    for process in nodes:
        _, errors = process.communicate(timeout=600)
        assert process.returncode == 0, errors
    (row,) = (row for row in json.loads(out.read_text())["benchmarks"] if row["run_type"] == "iteration")
    found: dict[str, float] = row
    return found


@pytest.mark.parametrize("kind", ["netem", "tun"])
def test_the_fit_finds_what_a_link_is_shaped_to(kind: str, tmp_path: Path) -> None:
    if not TORCHRUN.exists():
        pytest.skip("torchrun is not installed")
    found = {}
    for delay in (DELAY, 2 * DELAY):
        with link(kind, delay) as share:
            found[delay] = measure(kind, tmp_path / f"{delay}.json")
    assert found[DELAY]["linkbw"] == pytest.approx(RATE * share, rel=0.05)
    # A message takes the time of its programs as well, on any link: less on one that leaves them a processor meanwhile.
    added = found[2 * DELAY]["link_alpha_ms"] - found[DELAY]["link_alpha_ms"]
    assert added == pytest.approx(1e3 * DELAY, rel=0.05), found
    store = f"--store={tmp_path}/nights.db"
    for verb in (("history", "add", *map(str, sorted(tmp_path.glob("*.json"))), store), ("gate", store)):
        done = subprocess.run([ROOT / "tools" / "report", *verb], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    assert "all_reduce" in done.stdout
