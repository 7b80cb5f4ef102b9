"""Fit time, predict time and memory, side by side with other calibrators."""

import os

# One thread for everyone. The libraries read this when first imported, which is after
# this.
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_name] = "1"
