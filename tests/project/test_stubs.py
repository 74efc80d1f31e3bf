"""What the stubs of the compiled modules say is there: names, parameters, and which classes have no children.

mypy's stubtest compares both. It looks at what is declared, not at what else a module has: a stub shows what the
package uses.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import flinkbuf

pytestmark = pytest.mark.long  # mypy reads all of the package

PACKAGE = Path(flinkbuf.__file__).parent

# What Cython shows otherwise than Python does, or a stub says otherwise on purpose.
ALLOWED = {
    r"\.__init__ is inconsistent": "Cython hides the parameters of __cinit__ and __init__",
    r"\.__\w+__ is inconsistent, stub parameter \"\w+\" should be positional-only": "an operator is given no names",
    r"\.AbstractInputGate\.\w+ is not present": "its two classes have these",
    r"\.T is not present": "a type variable of the stub",
}

if sys.version_info < (3, 12):
    ALLOWED[r"\.__buffer__ is not present"] = "the buffer protocol has no name there"


def differences(modules, folder, *options):
    """Lines of stubtest, one for each thing that stub and module do not have alike."""
    (folder / "mypy.ini").write_text("[mypy]\nignore_missing_imports = true\n")
    command = [sys.executable, "-m", "mypy.stubtest", "--concise", "--ignore-missing-stub", *options]
    run = subprocess.run(
        [*command, "--mypy-config-file", "mypy.ini", *modules],
        cwd=folder,
        env=os.environ if PACKAGE.parent.name == "site-packages" else {**os.environ, "MYPYPATH": str(PACKAGE.parent)},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert run.returncode in (0, 1), run.stdout + run.stderr
    lines = run.stdout.splitlines()
    assert not any("error:" in line for line in lines) and "Traceback" not in run.stderr, run.stdout + run.stderr
    return lines


def stubbed_modules():
    """Every compiled module with a stub, by its name."""
    return [
        ".".join(("flinkbuf", *path.relative_to(PACKAGE).with_suffix("").parts))
        for path in sorted((PACKAGE / "_core").rglob("*.pyi"))
    ]


def test_stubs_say_what_compiled_modules_have(tmp_path):
    modules = stubbed_modules()
    assert len(modules) > 80
    found = differences(modules, tmp_path, "--ignore-disjoint-bases")
    assert [line for line in found if not any(re.search(pattern, line) for pattern in ALLOWED)] == []
    assert [pattern for pattern in ALLOWED if not any(re.search(pattern, line) for line in found)] == [], "not needed"


def test_a_wrong_stub_would_be_found(tmp_path):
    (tmp_path / "there.py").write_text("def add(a, b):\n    return a + b\n")
    (tmp_path / "there.pyi").write_text("def add(a: int, c: int) -> int: ...\ndef gone() -> None: ...\n")
    found = differences(["there"], tmp_path)
    assert [line.split()[0] for line in found] == ["there.add", "there.gone"]
