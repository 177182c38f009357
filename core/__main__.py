"""``python -m core COMMAND`` in a checkout: the commands of :mod:`midchart.core.cli`."""

import sys

try:
    from midchart.core.cli import main
except ModuleNotFoundError as error:
    if error.name != "midchart":
        raise
    sys.exit("midchart: not installed in this Python; `make app` or `pip install -e .` installs it")

if __name__ == "__main__":
    sys.exit(main())
