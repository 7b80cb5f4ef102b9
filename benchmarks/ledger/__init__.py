"""Speed as ratios: ours to a plain alternative, stored and measured again."""

import os

# One thread for everyone. The libraries read this when first imported, after this.
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_name] = "1"
