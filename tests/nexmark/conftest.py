"""The queries and their generator lie beside the benchmarks."""

import sys
from pathlib import Path

BENCH = Path(__file__).resolve().parents[2] / "bench"
if not BENCH.is_dir():
    collect_ignore_glob = ["test_*.py"]
elif str(BENCH) not in sys.path:
    sys.path.append(str(BENCH))
