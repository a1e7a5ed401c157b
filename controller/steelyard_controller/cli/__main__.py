"""`python -m steelyard_controller.cli`: the command without its entry point."""

import sys

from steelyard_controller.cli.subcommands import main

if __name__ == "__main__":
    sys.exit(main())
