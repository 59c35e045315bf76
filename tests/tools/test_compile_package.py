# SPDX-License-Identifier: Apache-2.0
"""The exporter of compiled packages: its operations, its errors, and its files."""

from __future__ import annotations

import argparse
import errno
import importlib.util
import os
import select
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import compile_package
import pytest
import torch

SCRIPT = Path(compile_package.__file__)
# A torch whose compiler hangs, and a parent that starts the exporter and waits to be killed.
SLOW_TORCH = """
import contextlib, sys, time, types
__version__ = "1.0"
nn = types.SimpleNamespace(Module=object)
export = types.SimpleNamespace(export=lambda *_, **__: None)
def set_num_threads(_): pass
def randn(_, device): return types.SimpleNamespace(to=lambda _: None)
no_grad = contextlib.nullcontext
float32 = types.SimpleNamespace(is_floating_point=True)
"""
SLOW_COMPILER = """
import time
def aoti_compile_and_package(_, package_path, inductor_configs):
    open(package_path, "w").write("half")
    print("compiling", flush=True)
    time.sleep(600)
"""
PARENT = "import subprocess, sys; print(subprocess.Popen(sys.argv[1:]).pid, flush=True); sys.stdin.read()"


def arguments(output: Path, version: str, parent: int = 0) -> list[str]:
    given = ["--operation=softmax", "--input=float32:2x8", "--threads=2", f"--torch-version={version}"]
    given += [f"--inductor-cache={output.parent}", f"--site-packages={output.parent}", f"--parent={parent}"]
    return [*given, f"--output={output}"]


def gpu_options(tmp_path: Path, version: str = "2.11.0") -> argparse.Namespace:
    given = arguments(tmp_path / "softmax.pt2", version)
    return compile_package.parsed([*given, "--device=cuda:1", "--gpu=NVIDIA H200, sm_90"])


def refusal(options: argparse.Namespace, capsys: pytest.CaptureFixture[str]) -> str:
    """The last line of a failed export, which leaves no file."""
    assert compile_package.make(options) == 1
    assert not list(options.output.parent.iterdir())
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith("compile_package: ")
    return last


def test_missing_tools_are_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    options = gpu_options(tmp_path)
    monkeypatch.setenv("CXX", "true")
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    assert "has no triton" in refusal(options, capsys)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX")
    assert "there is no C++ compiler: g++ is not on the PATH" in refusal(options, capsys)


class Cuda:
    """A torch with two GPUs, the second of this name."""

    __version__ = "2.11.0+cu130"

    def __init__(self, name: str, available: bool = True) -> None:
        self.cuda = self
        self.name, self.available = name, available

    def is_available(self) -> bool:
        return self.available

    def get_device_capability(self, device: str) -> tuple[int, int]:
        assert device == "cuda:1"
        return 9, 0

    def get_device_name(self, device: str) -> str:
        assert device == "cuda:1"
        return self.name


def test_another_gpu_is_refused(tmp_path: Path) -> None:
    options = gpu_options(tmp_path)
    compile_package.check(Cuda("NVIDIA H200"), options)
    with pytest.raises(RuntimeError, match=r"cuda:1 of .* is NVIDIA L4, sm_90, that of roofbench NVIDIA H200, sm_90"):
        compile_package.check(Cuda("NVIDIA L4"), options)
    with pytest.raises(RuntimeError, match="sees no GPU"):
        compile_package.check(Cuda("NVIDIA H200", available=False), options)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_missing_gpu_is_the_reason(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With the installed torch and its triton."""
    options = gpu_options(tmp_path, torch.__version__.split("+")[0])
    assert "sees no GPU" in refusal(options, capsys)


def test_another_torch_is_the_reason(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = compile_package.parsed(arguments(tmp_path / "softmax.pt2", "1.2.3"))
    assert "that of roofbench 1.2.3" in refusal(options, capsys)


def test_a_full_disk_is_the_reason_if_any_cause_is_one() -> None:
    full = OSError(errno.ENOSPC, "No space left on device", "/cache/x")
    outer = RuntimeError("C++ compile error")
    outer.__cause__ = full
    assert compile_package.reason_of(outer) == "[Errno 28] No space left on device: '/cache/x'"
    said = RuntimeError("C++ compile error\n\nas: cannot write x.o: No space left on device\n  more")
    assert compile_package.reason_of(said) == "as: cannot write x.o: No space left on device"
    assert compile_package.reason_of(ValueError("first\nsecond")) == "ValueError: first"


def arrays(*shapes: tuple[int, ...]) -> list[Any]:
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(shape, generator=generator) for shape in shapes]


@pytest.mark.parametrize("rows", [1, 3])
def test_8_bit_weights_are_scaled_by_row(rows: int) -> None:
    x, wide, scales = arrays((rows, 16), (8, 16), (8,))
    weight = (wide * 30).to(torch.int8)
    expected = x.double() @ (weight.double() * scales.double()[:, None]).T
    found = compile_package.OPERATIONS["gemv_int8"](x, weight, scales)
    assert torch.allclose(found.double(), expected, rtol=1e-4, atol=1e-3)


def test_the_chosen_experts_are_multiplied() -> None:
    x, wide, scales = arrays((1, 16), (5, 8, 16), (5, 8))
    chosen = torch.tensor([3, 1])
    assert torch.allclose(compile_package.OPERATIONS["gather_gemv"](x, wide, chosen), wide[chosen] @ x[0], atol=1e-4)
    weight = (wide * 30).to(torch.int8)
    expected = (weight.double() * scales.double()[:, :, None])[chosen] @ x[0].double()
    found = compile_package.OPERATIONS["gather_gemv_int8"](x, weight, chosen, scales)
    assert torch.allclose(found.double(), expected, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("stored", [torch.float32, torch.int8])
def test_a_decoder_appends_pieces_as_the_whole(stored: torch.dtype) -> None:
    """Piece by piece, down to single tokens, for which attention and products have other formulas."""
    batch, capacity, heads, kv_heads, d, ff, vocab = 2, 6, 4, 2, 4, 24, 11
    width = heads * d

    def matrix(rows: int, columns: int) -> list[Any]:
        (weight,) = arrays((rows, columns))
        return [(weight * 30).to(torch.int8), torch.full((rows,), 0.02)] if stored == torch.int8 else [weight / 2]

    def layer() -> list[Any]:
        first, second = arrays((width,), (width,))
        products = [*matrix((heads + 2 * kv_heads) * d, width), *matrix(width, width)]
        return [first, *products, second, *matrix(2 * ff, width), *matrix(width, ff)]

    angles, embedding, last_norm = arrays((capacity, d // 2), (vocab, width), (width,))
    shared = (torch.tensor([1e-5]), angles.cos(), angles.sin(), embedding, last_norm, *matrix(vocab, width))
    tokens = torch.arange(batch * 4).view(batch, 4)

    def logits_of(*pieces: int) -> Any:
        caches = [[torch.zeros(batch, kv_heads, capacity, d) for _ in range(2)] for _ in range(2)]
        layers = [one for cache in caches for one in (*cache, *layer())]
        begin, logits = 0, None
        for piece in pieces:
            positions = torch.arange(begin, begin + piece)
            logits = compile_package.decoder(tokens[:, positions], positions, *shared, *layers)
            begin += piece
        return logits

    whole = logits_of(4)
    assert whole.shape == (batch, vocab)
    assert torch.allclose(logits_of(2, 1, 1), whole, rtol=1e-4, atol=1e-4)
    assert not torch.allclose(logits_of(3), whole, rtol=1e-2), "the last token matters"


@pytest.mark.slow  # importing torch's compiler takes many seconds
@pytest.mark.parametrize("name", ["mlp", "mlp_bf16_autocast"])
def test_both_parts_of_a_step_match_autograd(name: str) -> None:
    inputs = [f"float32:{shape}" for shape in ("6x8", "8x8", "8", "8x8", "8")]
    forward, examples = compile_package.to_compile(torch, f"{name}_forward", inputs)
    backward, kept = compile_package.to_compile(torch, f"{name}_backward", inputs)
    y, *saved = forward(*examples)
    assert [one.shape for one in (*saved, y)] == [one.shape for one in kept]
    (upstream,) = arrays((6, 8))
    gradients = backward(*saved, upstream.to(y.dtype))

    parameters = [one.clone().requires_grad_() for one in examples[1:]]
    expected = compile_package.TRAINED[name](examples[0], *parameters)
    expected.backward(upstream.to(expected.dtype))
    assert torch.equal(y, expected)
    assert len(gradients) == len(parameters)
    for gradient, parameter in zip(gradients, parameters, strict=True):
        assert torch.allclose(gradient, parameter.grad, rtol=2e-2, atol=2e-2)


def test_the_exporter_ends_with_its_parent_and_leaves_nothing(tmp_path: Path) -> None:
    modules, cache = tmp_path / "modules", tmp_path / "cache"
    (modules / "torch" / "_inductor").mkdir(parents=True)
    cache.mkdir()
    (modules / "torch" / "__init__.py").write_text(SLOW_TORCH)
    (modules / "torch" / "_inductor" / "__init__.py").write_text(SLOW_COMPILER)
    # The parent's id is known when it runs.
    starts = f"import os, sys; sys.argv = [{str(SCRIPT)!r}, *sys.argv[1:], f'--parent={{os.getppid()}}']; "
    starts += f"exec(compile(open({str(SCRIPT)!r}).read(), 'compile_package', 'exec'))"
    given = [text for text in arguments(cache / "softmax.pt2", "1.0") if not text.startswith("--parent")]
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, sys.executable, "-c", starts, *given],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(modules), "CXX": "true"},
    )
    assert parent.stdout
    child = os.pidfd_open(int(parent.stdout.readline()))
    assert parent.stdout.readline() == "compiling\n"
    assert [path.name for folder in cache.iterdir() for path in folder.iterdir()] == ["package.pt2"]
    parent.send_signal(signal.SIGKILL)
    parent.wait(timeout=600)
    assert select.select([child], [], [], 600)[0], "it ends"
    os.close(child)
    assert not list(cache.iterdir())
