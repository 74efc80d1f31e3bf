"""The programs of tests/pyflink, run in a process of their own on flinkbuf or on PyFlink."""

import json
import os
import subprocess
from pathlib import Path

HERE = Path(__file__).parents[1] / "pyflink"
EXPECTED = HERE / "expected.json"
PYFLINK = os.environ.get("FLINKBUF_PYFLINK")
RUN_SECONDS = {"flinkbuf": 600, "pyflink": 3000}


def answers_of(python, root, folder):
    """What the programs answer on ``root``; those that failed are named with their error."""
    path = folder / f"{root}.json"
    # PyFlink starts its workers as `python`, whichever comes first on the path.
    environment = {**os.environ, "PATH": f"{Path(python).parent}{os.pathsep}{os.environ['PATH']}"}
    with open(folder / f"{root}.log", "w+") as log:
        command = [python, HERE / "run_programs.py", root, path]
        subprocess.run(command, env=environment, stdout=log, stderr=log, timeout=RUN_SECONDS[root], cwd=folder)
        log.seek(0)
        assert path.exists(), log.read()[-5000:]
    return json.loads(path.read_text())
