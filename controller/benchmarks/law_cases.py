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
    for case, bounds in CASES.items():
        for name, figure in case(law).items():
            bound = bounds[name]
            within = bound.low <= figure <= bound.high
            met &= within
            print(
                f"| {(case.__doc__ or '').rstrip('.')} | {name} | {figure:.3g} | {bound.truth:.3g} "
                f"| {bound.low:g} to {bound.high:g}{'' if within else ': **missed**'} |"
            )
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
