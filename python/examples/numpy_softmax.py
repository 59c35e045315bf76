"""A numpy function against the roof of this machine.

    python numpy_softmax.py

The result is checked against a reference in double precision, the arrays come from memory before each call, and the
share of the roof says what a better kernel could still gain.
"""

import numpy as np
import roofbench

ROWS, COLUMNS = 512, 4096


def softmax(x: np.ndarray) -> np.ndarray:
    raised = np.exp(x - x.max(axis=1, keepdims=True))
    return raised / raised.sum(axis=1, keepdims=True)


x = np.random.default_rng(0).standard_normal((ROWS, COLUMNS), dtype=np.float32)
work = roofbench.work.softmax(ROWS, COLUMNS, "fp32")
print(roofbench.measure(softmax, x, work=work, reference=softmax))
print(roofbench.measure(softmax, x, work=work, reference=softmax, cache="warm"))
