# SPDX-License-Identifier: Apache-2.0
"""tools/published: runs the experiments that others published, each with one command."""

from __future__ import annotations

import argparse
import shlex
import sys
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from roofreport.exit_status import ended, status_of
from roofreport.project_folder import typed
from roofreport.text import printable

ROOT = Path(__file__).resolve().parents[1]
EXIT_UNUSABLE = 2
_COLUMNS = 80  # of the list, as of any terminal
EPILOG = """
Other flags are passed to roofbench and override those of the experiment:

  tools/published passes --axis=train_step.size=small
  tools/published micro --show
"""

RESULT = "RESULT"  # stands for the result file in the arguments of a report


@dataclass(frozen=True)
class Experiment:
    """Flags of roofbench, and the arguments of tools/report for each report."""

    name: str
    doc: str
    flags: tuple[str, ...]
    reports: tuple[tuple[str, ...], ...]


def _axis(flag: str) -> str:
    """The axis of which it gives the values; empty for other flags."""
    name, _, given = flag.partition("=")
    return given.partition("=")[0] if name == "--axis" else ""


def _filter(pattern: str) -> str:
    return f"--benchmark_filter={pattern}"


def _training(dtypes: str, **axes: str) -> tuple[str, ...]:
    """Flags of training steps with the axes of the published script."""
    published = {"size": "small", "context": "128", "pass": "forward_backward", "warmup": "5"}
    published |= {"parallel": "none", "ranks": "1", **axes}
    return (
        _filter(f"^train_step/impl:eager/.*dtype:{dtypes}/warmup:"),
        *(f"--axis=train_step.{axis}={values}" for axis, values in published.items()),
    )


_TEN_STEPS = ("--benchmark_min_time=10x", "--roof_share=0")
_TRAINING_TABLE = ("table", RESULT, "--training")
_MEMORY = "case,median,peak_mem,activation_mem,predicted_mem"
# gpt-fast includes the time of the prompt, bitsandbytes does not.
_WHOLE_GENERATION = "case,median,e2e_tokens/s,target_e2e_tokens/s,bytes/s,target_bytes/s,mbu_measured"
_GENERATION = "case,median,tokens/s,target_tokens/s"

EXPERIMENTS = (
    Experiment(
        "passes",
        "training steps: forward and backward, mean ± standard deviation, and how each grows from the smallest size",
        (*_training("fp32", size="small,medium,large"), *_TEN_STEPS),
        (_TRAINING_TABLE, ("params", RESULT)),
    ),
    Experiment(
        "warmups",
        "training steps: 0, 1, 2 and 5 warm-up steps for each pass, five fresh processes of each",
        (
            *_training("fp32", **{"pass": "forward,forward_backward,step"}, warmup="0,1,2,5"),
            *_TEN_STEPS,
            "--fresh_process",
            "--benchmark_repetitions=5",
        ),
        (
            (*_TRAINING_TABLE, "--repeats"),
            (*_TRAINING_TABLE, "--repeats", "--format=csv", "--output=warmups.csv"),
        ),
    ),
    Experiment(
        "mixed",
        "training steps: fp32 and bf16 autocast",
        (*_training("(fp32|bf16_autocast)", size="small,medium,large"), *_TEN_STEPS),
        (_TRAINING_TABLE,),
    ),
    Experiment(
        "memory",
        "training steps: peak memory of inference and of a whole step by context",
        (
            _filter(
                "^train_step/impl:eager/(pass:inference/)?size:small/context:[0-9]+/dtype:fp32"
                "(/(batch|vocab|d_model|d_ff|layers|heads):[^/]*)*$"
            ),
            "--axis=train_step.context=128,256,512",
            "--axis=train_step.pass=inference,step",
            "--roof_share=0",
        ),
        (("table", RESULT, f"--columns={_MEMORY}"),),
    ),
    Experiment(
        "lecture",
        "square products, and an MLP in each of its four sweeps, warm: times over those of the sweep's base",
        (
            _filter("^(matmul/impl:eager/dtype:fp32/n:|mlp/dtype:fp32/.*/d:[0-9]+(/cache:[a-z]+)?$)"),
            *("--axis=matmul.m=n", "--axis=matmul.k=n", "--axis=matmul.cache=warm"),
            "--axis=matmul.n=1024,2048,4096,8192,16384",
        ),
        (("scaling", RESULT, "--points"), ("scaling", RESULT, "--svg=lecture.svg")),
    ),
    Experiment(
        "mlp",
        "the MLP's widths by eager LibTorch, by Inductor, and by our own kernels",
        (_filter("^mlp/(impl:(compiled|native)/)?dtype:fp32/steps:2/layers:4/batch:256/d:[0-9]+(/cache:[a-z]+)?$"),),
        (("table", RESULT, "--baseline=impl:eager"),),
    ),
    Experiment(
        "micro",
        "gpt-fast's micro experiments, means over D = 1024, 4096, 8192, 16384 in its own CSV columns",
        (
            _filter(
                "^((gemv|gather_gemv|layer_norm)/impl:(eager|compiled|native)/[a-z]+:(bf16|int8)"
                "|mlp_layer_norm_gelu/impl:(eager|compiled|native))/[nd]:[0-9]+(/hidden:[0-9]+)?$"
            ),
            "--coordinate_descent_tuning",
        ),
        (("table", RESULT, "--format=gpt_fast"),),
    ),
    Experiment(
        "gpt_fast",
        "gpt-fast's generations: 200 new tokens, batch 1",
        (_filter("^published/.*gpt_fast"),),
        (("table", RESULT, f"--columns={_WHOLE_GENERATION}"),),
    ),
    Experiment(
        "bitsandbytes",
        "LLM.int8() with and without outliers, and bf16",
        (_filter("^published/.*bitsandbytes"),),
        (("table", RESULT, f"--columns={_GENERATION}"),),
    ),
    Experiment(
        "int8_benchmark",
        "LLM.int8() as bitsandbytes' int8_benchmark.py runs it, by its count of tokens and by all",
        (_filter("^published/.*int8_benchmark"), "--warmup_iters=3", "--benchmark_min_time=5x", "--roof_share=0"),
        (("table", RESULT, "--columns=case,median,e2e_tokens/s,script_tokens/s"),),
    ),
    Experiment(
        "stages",
        "the stages of LLM.int8() in a step of a quarter of Llama-3.2-1B",
        (
            _filter("^decode/model:llama3_1b_4th/precision:llm_int8/.*depth:128"),
            "--axis=decode.model=llama3_1b_4th",
            "--axis=decode.outliers=6,0",
        ),
        (),
    ),
)


def refusal(why: str) -> SystemExit:
    print(f"tools/published: {printable(why, 1000)}", file=sys.stderr)
    return SystemExit(EXIT_UNUSABLE)


def commands(experiment: Experiment, more: Sequence[str]) -> list[list[str]]:
    """The run, then its reports; their programs lie in the root of the repository."""
    result = f"{experiment.name}.json"
    axes = {_axis(flag) for flag in more} - {""}
    kept = [flag for flag in experiment.flags if _axis(flag) not in axes]
    run = ["build/release/bin/roofbench", *kept, f"--benchmark_out={result}", *more]
    reports = [[result if word == RESULT else word for word in report] for report in experiment.reports]
    return [run, *(["tools/report", *report] for report in reports)]


def listing() -> str:
    width = max(len(one.name) for one in EXPERIMENTS) + 2
    return "".join(
        textwrap.fill(one.doc, _COLUMNS, initial_indent=f"{one.name:<{width}}", subsequent_indent=" " * width) + "\n"
        for one in EXPERIMENTS
    )


def main(arguments: Sequence[str] | None = None, root: Path = ROOT) -> int:
    parser = argparse.ArgumentParser(
        prog="tools/published",
        description="Runs a published experiment and prints its table.\nResults go to NAME.json in the current folder.",
        epilog=listing() + EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("name", nargs="?", metavar="NAME", help="of the experiment; without it all are listed")
    parser.add_argument("--show", action="store_true", help="print the commands without running them")
    options, more = parser.parse_known_args(arguments)
    if options.name is None:
        if more:
            raise refusal(f"{more[0]} before the name of an experiment; tools/published lists the names")
        print(listing(), end="")
        return 0
    experiment = next((one for one in EXPERIMENTS if one.name == options.name), None)
    if experiment is None:
        raise refusal(f"no experiment is called {options.name}: {', '.join(one.name for one in EXPERIMENTS)}")
    for command in commands(experiment, more):
        if options.show:
            print(shlex.join([typed(command[0], root), *command[1:]]))
            continue
        program = root / command[0]
        if not program.exists():
            raise refusal(f"{program} is missing; tools/setup builds it")
        if status := status_of([str(program), *command[1:]]):
            return status
    return 0


if __name__ == "__main__":
    sys.exit(ended("tools/published", main))
