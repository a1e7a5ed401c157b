"""`python -m steelyard_controller.cli`: the command without its entry point."""

from steelyard_controller.console_scripts import steelyard

if __name__ == "__main__":
    raise SystemExit(steelyard())
