"""Nexmark: an auction site's persons, auctions and bids, and what 24 queries make of them.

The queries are plain DataStream programs, each in a file of its own, q0.py to q23.py. From bench/:

    python -m nexmark q5 --events 100000 --target local --parallelism 2

The rules are those of https://github.com/nexmark/nexmark; where it draws by chance, this draws from a seed, so that
everybody who follows the rules has the same events. What makes them is compiled when it is first wanted.
"""

import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

SOURCE = Path(__file__).with_name("generator.pyx")
COMPILED = SOURCE.with_suffix(sysconfig.get_config_var("EXT_SUFFIX"))


def compile_generator():
    """Compile the generator for this Python unless that is done; a process that comes meanwhile compiles its own."""
    if COMPILED.exists() and COMPILED.stat().st_mtime >= SOURCE.stat().st_mtime:
        return
    with tempfile.TemporaryDirectory(dir=SOURCE.parent, prefix="build-") as folder:
        copy = Path(folder, SOURCE.name)
        copy.write_bytes(SOURCE.read_bytes())
        command = [sys.executable, "-m", "Cython.Build.Cythonize", "-i", "-3", "-q", copy.name]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        if done.returncode:
            raise ImportError(f"{SOURCE} cannot be compiled; Cython and a C compiler can:\n{done.stderr[-3000:]}")
        copy.with_name(COMPILED.name).replace(COMPILED)


compile_generator()
