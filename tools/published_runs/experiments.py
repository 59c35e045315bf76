# SPDX-License-Identifier: Apache-2.0
"""What is run for each published table, and how it is told."""

from __future__ import annotations

from dataclasses import dataclass

RESULT = "RESULT"  # in a report: the file that the run writes


@dataclass(frozen=True)
class Experiment:
    """`flags` of roofbench, and arguments of tools/report: one call each."""

    name: str
    doc: str
    flags: tuple[str, ...]
    reports: tuple[tuple[str, ...], ...]


def _filter(pattern: str) -> str:
    return f"--benchmark_filter={pattern}"


def _training(dtypes: str, **axes: str) -> tuple[str, ...]:
    """Flags of steps with a set number of warm-ups, on axes as the published script has them."""
    published = {"size": "small", "context": "128", "pass": "forward_backward", "warmup": "5"} | axes
    return (
        _filter(f"^train_step/impl:eager/.*dtype:{dtypes}/warmup:"),
        *(f"--axis=train_step.{axis}={values}" for axis, values in published.items()),
    )


_TEN_STEPS = ("--benchmark_min_time=10x", "--roof_share=0")
_TRAINING_TABLE = ("table", RESULT, "--training")
_MEMORY = "case,median,peak_mem,activation_mem,predicted_mem"
# gpt-fast counts the time of the prompt, bitsandbytes does not.
_WHOLE_GENERATION = "case,median,e2e_tokens/s,target_e2e_tokens/s,mbu_measured"
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
        "training steps: 0, 1, 2 and 5 steps of warm-up for each pass, five fresh processes of each",
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
        "training steps: fp32 beside bf16 autocast",
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
            _filter("^(matmul/impl:eager/dtype:fp32/n:|mlp/dtype:fp32/)"),
            *("--axis=matmul.m=n", "--axis=matmul.k=n", "--axis=matmul.cache=warm"),
            "--axis=matmul.n=1024,2048,4096,8192,16384",
        ),
        (("scaling", RESULT, "--points"), ("scaling", RESULT, "--svg=lecture.svg")),
    ),
    Experiment(
        "mlp",
        "the MLP's widths by eager LibTorch, by Inductor, and by our own kernels",
        (_filter("^mlp/(impl:(compiled|native)/)?dtype:fp32/steps:2/layers:4/batch:256/d:"),),
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
        "LLM.int8() with and without outliers beside bf16",
        (_filter("^published/.*bitsandbytes"),),
        (("table", RESULT, f"--columns={_GENERATION}"),),
    ),
    Experiment(
        "stages",
        "the stages of LLM.int8() in a step of a quarter of Llama-3.2-1B",
        (
            _filter("^decode/model:llama3_1b_4th/precision:llm_int8/.*depth:128"),
            "--axis=decode.model=llama3_1b_4th",
            "--axis=decode.outliers=6,none",
        ),
        (),
    ),
)
