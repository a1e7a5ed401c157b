"""The default law where requests are long, dear, open or unseen: `make law-cases`, a table."""

import sys
from pathlib import Path

from steelyard_controller import laws

sys.path.insert(0, str(Path(__file__).parents[2]))
from testing.law_cases import CASES


def main() -> int:
    """Print a row for each figure; the exit status tells whether each lies within its bounds."""
    law, met = laws.create(laws.NAMES[0]), True
    print("| case | of what | figure | in truth | bounds |\n|---|---|---:|---:|---|")
    for case in CASES:
        for of, found, low, high, truth in case(law):
            within = low <= found <= high
            met &= within
            print(
                f"| {(case.__doc__ or '').rstrip('.')} | {of} | {found:.3g} | {truth:.3g} "
                f"| {low:g} to {high:g}{'' if within else ': **missed**'} |"
            )
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
