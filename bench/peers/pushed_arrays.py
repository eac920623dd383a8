"""The arrays of 1 MB that are pushed or copied."""

from typing import List

import numpy as np

from works import PUSH, PUSHED_ARRAYS


def arrays() -> List[np.ndarray]:
    """PUSHED_ARRAYS arrays of uint8 of shape [PUSH.row_bytes], the same in each process."""
    random = np.random.default_rng(7)
    return [random.integers(0, 256, PUSH.row_bytes, dtype=np.uint8) for _ in range(PUSHED_ARRAYS)]
