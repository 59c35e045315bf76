# SPDX-License-Identifier: Apache-2.0
"""Compile one operation into an AOTInductor package (.pt2), which LibTorch loads without Python.

roofbench embeds this file and runs it (python -I -c) when it first builds a case with impl:compiled. After a failure
the last line is "compile_package: " and the reason.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib
import importlib.util
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

# torch is imported late: it takes seconds, and its absence must be reported.
Tensor = Any
LAYER_EPS = 1e-5  # as in benchmarks/micro
RMS_EPS = 1e-6
CPU = "cpu"  # a value of --device

SET_PDEATHSIG = 1  # of prctl(2)
NO_ROOM = ("No space left on device", "Disk quota exceeded")


def the_torch() -> Any:
    return importlib.import_module("torch")


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Inductor compiles a sum of products to one pass; it passes a product of matrices on to ATen."""
    if x.shape[0] == 1:
        y = (x.float() * weight.float()).sum(1).unsqueeze(0)
        return (y if bias is None else y + bias.float()).to(x.dtype)
    return the_torch().nn.functional.linear(x, weight, bias)


def linear_int8(x: Tensor, weight: Tensor, scales: Tensor) -> Tensor:
    """8-bit weights with one scale for each row, widened inside the product."""
    if x.shape[0] == 1:
        return ((x.float() * weight.float()).sum(1) * scales.float()).unsqueeze(0).to(x.dtype)
    return the_torch().nn.functional.linear(x, weight.to(x.dtype)) * scales


def gather_linear(x: Tensor, weight: Tensor, chosen: Tensor) -> Tensor:
    """The chosen experts, which one pass reads in place."""
    return (x.float() * weight[chosen].float()).sum(-1).to(x.dtype)


def gather_linear_int8(x: Tensor, weight: Tensor, chosen: Tensor, scales: Tensor) -> Tensor:
    return ((x.float() * weight[chosen].float()).sum(-1) * scales[chosen].float()).to(x.dtype)


def layer_norm(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    functional = the_torch().nn.functional
    y = functional.layer_norm(x.float(), (x.shape[1],), weight.float(), bias.float(), LAYER_EPS)
    return y.to(x.dtype)


def rms_norm(x: Tensor, weight: Tensor, epsilon: Tensor | float = RMS_EPS) -> Tensor:
    wide = x.float()
    return (wide * (wide.pow(2).mean(-1, keepdim=True) + epsilon).rsqrt() * weight).to(x.dtype)


def softmax(x: Tensor) -> Tensor:
    return x.softmax(1)


def attention(q: Tensor, k: Tensor, v: Tensor, causal: bool = False) -> Tensor:
    """The query heads of a group share k and v. Inductor fuses the operations between the two products."""
    torch = the_torch()
    heads, group, queries, d = q.shape
    keys = k.shape[1]
    scores = torch.bmm(q.reshape(heads, group * queries, d), k.transpose(1, 2)).view(heads, group, queries, keys)
    scores = scores * d**-0.5
    if causal:
        hidden = torch.ones(queries, keys, dtype=torch.bool, device=q.device).triu(keys - queries + 1)
        scores = scores.masked_fill(hidden, -torch.inf)
    return torch.bmm(scores.softmax(-1).view(heads, group * queries, keys), v).view(q.shape)


def attention_causal(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return attention(q, k, v, causal=True)


def mlp(x: Tensor, *blocks: Tensor) -> Tensor:
    """Two linear layers with norms; a block is weight, bias, norm weight and norm bias."""
    for first in (0, 4):
        x = layer_norm(linear(x, *blocks[first : first + 2]), *blocks[first + 2 : first + 4])
    return x


def mlp_gelu(x: Tensor, *blocks: Tensor) -> Tensor:
    functional = the_torch().nn.functional
    h = functional.gelu(layer_norm(linear(x, *blocks[0:2]), *blocks[2:4]))
    return layer_norm(linear(h, *blocks[4:6]), *blocks[6:8])


def perceptron(x: Tensor, *parameters: Tensor) -> Tensor:
    """Linear layers with GELU; each has a weight and a bias."""
    functional = the_torch().nn.functional
    for first in range(0, len(parameters), 2):
        x = functional.gelu(functional.linear(x, *parameters[first : first + 2]))
    return x


def perceptron_autocast(x: Tensor, *parameters: Tensor) -> Tensor:
    torch = the_torch()
    with torch.autocast(x.device.type, dtype=torch.bfloat16):
        return perceptron(x, *parameters)


def rotated(x: Tensor, cosines: Tensor, sines: Tensor) -> Tensor:
    """Pairs are half a head apart."""
    low, high = x.float().chunk(2, -1)
    return the_torch().cat((low * cosines - high * sines, high * cosines + low * sines), -1).to(x.dtype)


def attention_to_cache(q: Tensor, keys: Tensor, values: Tensor, hidden: Tensor) -> Tensor:
    """q [batch, heads, tokens, d] over a whole cache, of which `hidden` [tokens, capacity] masks a part."""
    torch = the_torch()
    batch, d = q.shape[0], q.shape[-1]
    if q.shape[2] > 1:
        return torch.nn.functional.scaled_dot_product_attention(q, keys, values, hidden.logical_not(), enable_gqa=True)
    # Sums of products, which Inductor compiles itself: a library would multiply one row by a matrix for each head.
    groups = q.view(batch, keys.shape[1], -1, 1, d).float()
    scores = (groups * keys.unsqueeze(2).float()).sum(-1) * d**-0.5
    weights = scores.masked_fill(hidden[0], -torch.inf).softmax(-1).unsqueeze(-1)
    return (weights * values.unsqueeze(2).float()).sum(-2).to(q.dtype).view(q.shape)


def decoder(tokens: Tensor, positions: Tensor, epsilon: Tensor, *rest: Tensor) -> Tensor:
    """Appends tokens [batch, n] at `positions` [n] to static caches, and returns the logits of the last: fp32.

    `rest`: cosines and sines of all positions, the embedding, the weight of the last norm, the head; and of each layer
    its keys and values [batch, heads, capacity, d], which are written to; the weight of a norm, the products qkv and
    out; the weight of a norm, the products gate and up, and down. An int8 matrix is followed by its scales.
    """
    torch = the_torch()
    functional = torch.nn.functional
    given = iter(rest)

    def matrix() -> tuple[Tensor, ...]:
        weight = next(given)
        return (weight, next(given)) if weight.dtype == torch.int8 else (weight,)

    def product(x: Tensor, weights: tuple[Tensor, ...]) -> Tensor:
        rows = x.reshape(-1, x.shape[-1])
        y = (linear_int8 if len(weights) == 2 else linear)(rows, *weights)
        return y.to(x.dtype).view(*x.shape[:-1], -1)

    cosines, sines = next(given)[positions], next(given)[positions]
    embedding, last_norm, head = next(given), next(given), matrix()
    x = embedding[tokens]
    for keys in given:
        values = next(given)
        kv_heads, capacity, d = keys.shape[1:]
        hidden = torch.arange(capacity, device=x.device) > positions.unsqueeze(1)
        qkv = product(rms_norm(x, next(given), epsilon), matrix()).unflatten(-1, (-1, d)).transpose(1, 2)
        q, k, v = qkv.split((qkv.shape[1] - 2 * kv_heads, kv_heads, kv_heads), 1)
        keys.index_copy_(2, positions, rotated(k, cosines, sines))
        values.index_copy_(2, positions, v)
        attended = attention_to_cache(rotated(q, cosines, sines), keys, values, hidden)
        x = x + product(attended.transpose(1, 2).flatten(2), matrix())
        gate, up = product(rms_norm(x, next(given), epsilon), matrix()).chunk(2, -1)
        x = x + product(functional.silu(gate) * up, matrix())
    return product(rms_norm(x[:, -1], last_norm, epsilon), head).float()


def transformer(tokens: Tensor, targets: Tensor, cosines: Tensor, sines: Tensor, *rest: Tensor) -> tuple[Tensor, ...]:
    """The loss of a transformer in training, and the logits of each sequence's last token [batch, 1, vocab].

    `rest`: the embedding; of each block the weight of a norm, query, key, value and output, the weight of a norm, gate,
    up and down; the weight of the last norm, and the head.
    """
    functional = the_torch().nn.functional

    def norm(x: Tensor, weight: Tensor) -> Tensor:
        return functional.rms_norm(x, weight.shape, weight, LAYER_EPS)

    def heads(x: Tensor) -> Tensor:
        return x.unflatten(-1, (-1, 2 * cosines.shape[1])).transpose(1, 2)

    embedding, *blocks, last_norm, head = rest
    x = functional.embedding(tokens, embedding)
    for first in range(0, len(blocks), 9):
        attention_norm, query, key, value, output, feed_forward_norm, gate, up, down = blocks[first : first + 9]
        y = norm(x, attention_norm)
        q, k = (rotated(heads(functional.linear(y, weight)), cosines, sines) for weight in (query, key))
        v = heads(functional.linear(y, value))
        attended = functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        x = x + functional.linear(attended.transpose(1, 2).flatten(2), output)
        y = norm(x, feed_forward_norm)
        x = x + functional.linear(functional.silu(functional.linear(y, gate)) * functional.linear(y, up), down)
    logits = functional.linear(norm(x, last_norm), head)
    return functional.cross_entropy(logits.flatten(0, 1), targets.flatten()), logits[:, -1:]


def transformer_autocast(*tensors: Tensor) -> tuple[Tensor, ...]:
    torch = the_torch()
    with torch.autocast(tensors[0].device.type, dtype=torch.bfloat16):
        return transformer(*tensors)


OPERATIONS: dict[str, Callable[..., Any]] = {
    "gemv": linear,
    "gemv_int8": linear_int8,
    "gather_gemv": gather_linear,
    "gather_gemv_int8": gather_linear_int8,
    "layer_norm": layer_norm,
    "rms_norm": rms_norm,
    "softmax": softmax,
    "attention": attention,
    "attention_causal": attention_causal,
    "mlp_layer_norm": mlp,
    "mlp_layer_norm_gelu": mlp_gelu,
    "decoder": decoder,
    "transformer": transformer,
    "transformer_bf16_autocast": transformer_autocast,
}

# Compiled in two parts, as torch.compile does: NAME_forward returns the result and the saved tensors; NAME_backward
# takes the saved tensors and the result's gradient, and returns the gradients of all inputs but the first.
TRAINED: dict[str, Callable[..., Tensor]] = {"mlp": perceptron, "mlp_bf16_autocast": perceptron_autocast}
FORWARD, BACKWARD = "_forward", "_backward"
CHOICES = sorted([*OPERATIONS, *(name + part for name in TRAINED for part in (FORWARD, BACKWARD))])


def example(torch: Any, text: str, device: str) -> Tensor:
    """A tensor for `bfloat16:4096x1024`; integers are zeros, which are valid indices."""
    dtype, shape = text.split(":")
    sizes = [int(size) for size in shape.split("x")]
    made = getattr(torch, dtype)
    if made.is_floating_point:
        return torch.randn(sizes, device=device).to(made)
    return torch.zeros(sizes, dtype=made, device=device)


def parts(torch: Any, operation: Callable[..., Tensor], inputs: Sequence[Tensor]) -> tuple[Any, Any, list[Tensor]]:
    """Forward, backward, and example inputs of backward, traced and partitioned as torch.compile does."""
    aot = importlib.import_module("torch._functorch.aot_autograd")
    partitioners = importlib.import_module("torch._functorch.partitioners")

    def placeholders(graph: Any) -> list[Any]:
        return [node.meta["val"] for node in graph.graph.find_nodes(op="placeholder")]

    primals = (inputs[0], *(tensor.requires_grad_() for tensor in inputs[1:]))
    joint = aot.aot_export_joint_simple(lambda *tensors: (operation(*tensors),), primals, trace_joint=True)
    forward, backward = partitioners.min_cut_rematerialization_partition(joint, placeholders(joint), num_fwd_outputs=1)
    examples = [
        torch.empty_strided(like.shape, like.stride(), dtype=like.dtype, device=like.device).zero_()
        for like in placeholders(backward)
    ]
    return forward, lambda *tensors: [made for made in backward(*tensors) if made is not None], examples


def to_compile(torch: Any, name: str, inputs: list[str], device: str = CPU) -> tuple[Callable[..., Any], list[Tensor]]:
    examples = [example(torch, text, device) for text in inputs]
    for part in (FORWARD, BACKWARD):
        if name.endswith(part):
            forward, backward, saved = parts(torch, TRAINED[name.removesuffix(part)], examples)
            return (forward, [one.detach() for one in examples]) if part == FORWARD else (backward, saved)
    return OPERATIONS[name], examples


def reason_against(compiler: str, device: str) -> str | None:
    """A missing tool, found without importing torch, which takes seconds."""
    if shutil.which(compiler) is None:
        return f"there is no C++ compiler: {compiler} is not on the PATH (CXX may name another)"
    if device != CPU and importlib.util.find_spec("triton") is None:
        return f"{sys.executable} has no triton, with which Inductor writes kernels for GPUs"
    return None


def check(torch: Any, options: argparse.Namespace) -> None:
    """Requires roofbench's own torch release and kind of GPU."""
    found = torch.__version__.split("+")[0]
    if found != options.torch_version:
        raise RuntimeError(f"the torch of {sys.executable} is {found}, that of roofbench {options.torch_version}")
    if options.device == CPU:
        return
    if not torch.cuda.is_available():
        raise RuntimeError(f"the torch of {sys.executable} sees no GPU")
    major, minor = torch.cuda.get_device_capability(options.device)
    gpu = f"{torch.cuda.get_device_name(options.device)}, sm_{major}{minor}"
    if gpu != options.gpu:
        raise RuntimeError(f"{options.device} of {sys.executable} is {gpu}, that of roofbench {options.gpu}")


def compile_for(options: argparse.Namespace) -> None:
    """Writes the package, and next to it the seconds of compiling, without the start of Python and LibTorch."""
    torch = the_torch()
    check(torch, options)
    torch.set_num_threads(options.threads)  # the generated code depends on it
    inductor = importlib.import_module("torch._inductor")
    begin = time.monotonic()
    operation, examples = to_compile(torch, options.operation, options.input, options.device)
    module: Any = torch.nn.Module

    class Model(module):  # type: ignore[misc]
        def forward(self, *tensors: Tensor) -> Any:
            return operation(*tensors)

    tuning = {"coordinate_descent_tuning": options.coordinate_descent_tuning}
    with torch.no_grad(), tempfile.TemporaryDirectory(dir=options.output.parent) as folder:
        program = torch.export.export(Model(), tuple(examples), strict=False)
        package = inductor.aoti_compile_and_package(
            program, package_path=str(Path(folder) / "package.pt2"), inductor_configs=tuning
        )
        seconds = Path(folder) / "seconds"
        seconds.write_text(f"{time.monotonic() - begin:.3f}\n")
        seconds.replace(options.output.with_suffix(".seconds"))
        Path(package).replace(options.output)  # atomic, and last


def end_with(parent: int) -> None:
    """Exits and removes the temporary folder when the process `parent` ends; a compiler would continue."""

    def end(_signal: int, _frame: FrameType | None) -> None:
        sys.exit("compile_package: roofbench has ended")

    signal.signal(signal.SIGTERM, end)
    ctypes.CDLL(None).prctl(SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:
        end(signal.SIGTERM, None)


def reason_of(error: BaseException) -> str:
    """One line: a full disk if any cause is one, else the error itself."""
    cause: BaseException | None = error
    while cause is not None:
        for line in str(cause).splitlines():
            if any(text in line for text in NO_ROOM):
                return line.strip()
        cause = cause.__cause__ or cause.__context__
    first = str(error).strip().split("\n", maxsplit=1)[0]
    return f"{type(error).__name__}: {first}"


def prepare(options: argparse.Namespace) -> None:
    end_with(options.parent)
    os.umask(0o077)
    # Its default is a shared folder of /tmp, whose files it would load.
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(options.inductor_cache)
    if importlib.util.find_spec("torch") is None:
        sys.path.append(str(options.site_packages))  # an isolated Python omits the user's packages


def parsed(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--operation", required=True, choices=CHOICES)
    parser.add_argument("--input", action="append", required=True, metavar="DTYPE:SHAPE", help="bfloat16:4096x1024")
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--coordinate-descent-tuning", action="store_true", help="try further tilings on a GPU")
    parser.add_argument("--torch-version", required=True)
    parser.add_argument("--device", default=CPU, help="cpu or cuda:N")
    parser.add_argument("--gpu", default="", metavar="NAME, sm_XY", help="roofbench's name of that device")
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--inductor-cache", type=Path, required=True, help="a folder that only this user can write to")
    parser.add_argument("--site-packages", type=Path, required=True, help="the folder of roofbench's LibTorch")
    parser.add_argument("--parent", type=int, required=True, help="the process to end with")
    return parser.parse_args(arguments)


def make(options: argparse.Namespace) -> int:
    reason = reason_against(os.environ.get("CXX", "g++"), options.device)
    if reason is None:
        try:
            compile_for(options)
        except Exception as error:  # report any error in one line
            reason = reason_of(error)
    if reason is not None:
        print(f"compile_package: {reason}", file=sys.stderr)
        return 1
    return 0


def main() -> int:
    options = parsed()
    prepare(options)
    return make(options)


if __name__ == "__main__":
    sys.exit(main())
