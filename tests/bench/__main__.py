"""``python -m tests.bench [NAME …] [--json]``: the command ``midchart bench``."""

import sys

from midchart.core.cli import main

if __name__ == "__main__":
    sys.exit(main(["bench", *sys.argv[1:]]))
