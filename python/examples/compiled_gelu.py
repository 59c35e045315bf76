"""torch.compile against eager: who is faster, by how much, and how sure is that?

    python compiled_gelu.py

Compilation is kept apart from the samples (first_call), and the two run by turns: A B, B A, A B, …
"""

import sys

import roofbench

try:
    import torch
except ImportError:
    print("skipped: torch is not installed")
    sys.exit()

torch.manual_seed(0)
module = torch.nn.Sequential(torch.nn.Linear(256, 1024), torch.nn.GELU(), torch.nn.Linear(1024, 256)).eval()
x = torch.randn(64, 256)


def eager(x: torch.Tensor) -> torch.Tensor:
    with torch.inference_mode():
        return module(x)


compiled = torch.compile(eager)
try:
    compiled(x)
except Exception as error:  # without a C++ compiler
    print(f"skipped: torch.compile does not work here: {str(error).splitlines()[0]}")
    sys.exit()

print(roofbench.measure(eager, x, work=roofbench.work.of(module, x), reference=eager, name="mlp/impl:eager"))
print(roofbench.compare(eager, compiled, x))
