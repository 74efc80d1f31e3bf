"""Shows a failing program again: what scripts that were printed for it call."""

from collections import Counter

from matrix.program import Program
from matrix.running import run


def show(build, way):
    """Print what comes of a program one way."""
    records = run(Program("again", build, None), way)
    for (name, text), count in sorted(Counter((name, text) for name, _, text in records).items()):
        print(f"{count} × {name} {text}")
