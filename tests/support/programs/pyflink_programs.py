"""The programs of tests/pyflink, run in a process of their own on flinkbuf or on PyFlink."""

import json
import os
import subprocess
from pathlib import Path

HERE = Path(__file__).parents[2] / "pyflink"
EXPECTED = HERE / "expected.json"
PYFLINK = os.environ.get("FLINKBUF_PYFLINK")
RUN_SECONDS = {"flinkbuf": 600, "pyflink": 3000}


def answers_of(python, root, folder, shares=1):
    """What the programs answer on ``root``, which names a target behind a colon; those that failed, with their error.

    With ``shares``, so many processes at the same time have every so-manieth family each.
    """
    # PyFlink starts its workers as `python`, whichever comes first on the path.
    environment = {**os.environ, "PATH": f"{Path(python).parent}{os.pathsep}{os.environ['PATH']}"}
    families = sorted(f"{path.stem}." for path in (HERE / "programs").glob("*.py"))
    paths = [folder / f"{root.replace(':', '-')}-{share}.json" for share in range(shares)]
    runs = []
    for share, path in enumerate(paths):
        with open(path.with_suffix(".log"), "w") as log:
            command = [python, HERE / "run_programs.py", root, path, *families[share::shares]]
            runs.append(subprocess.Popen(command, env=environment, stdout=log, stderr=log, cwd=folder))
    try:
        for run in runs:
            run.wait(RUN_SECONDS[root.partition(":")[0]])
    finally:
        for run in runs:
            run.kill()
            run.wait()
    answers = {"programs": {}, "failed": {}}
    for path in paths:
        assert path.exists(), path.with_suffix(".log").read_text()[-5000:]
        share = json.loads(path.read_text())
        answers["programs"].update(share["programs"])
        answers["failed"].update(share["failed"])
    return answers
