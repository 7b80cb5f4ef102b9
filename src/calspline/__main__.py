"""``python -m calspline`` is the ``calspline`` command."""

import sys

from calspline.cli import main

if __name__ == "__main__":
    sys.exit(main())
