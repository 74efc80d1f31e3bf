"""Libraries that a launcher imports for its task managers: which, and that it stays one that can be forked."""

import json
import os
import subprocess
import sys
import textwrap

import cloudpickle
import pytest

from flinkbuf.targets.libraries import is_library, libraries_of

ONLY_LINUX = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nothing is imported before the fork")


def in_new_process(code, folder):
    """What a program prints that finds modules in a folder; it may import and fork as it likes."""
    code = "from flinkbuf.targets.libraries import *; import json, os, sys\n" + textwrap.dedent(code)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), *filter(None, sys.path)])}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture
def user_module(tmp_path, monkeypatch):
    """A module of the user's, which uses libraries, by name and by what it took from them."""
    (tmp_path / "of_user.py").write_text(
        "import colorsys\nfrom wave import open as wave_open\nimport of_user_too\ndef f(value): return value\n"
    )
    (tmp_path / "of_user_too.py").write_text("from chunk_of_user import g\nimport pluggy\n")
    (tmp_path / "chunk_of_user.py").write_text("def g(value): return value\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    import of_user

    yield of_user
    for name in ("of_user", "of_user_too", "chunk_of_user"):
        sys.modules.pop(name, None)


def test_what_modules_of_the_user_use_is_found_through_them(user_module):
    libraries = libraries_of(cloudpickle.dumps({"function": cloudpickle.dumps(user_module.f)}))
    assert {"colorsys", "wave", "pluggy"} <= set(libraries)
    assert not {"of_user", "of_user_too", "chunk_of_user", "pytest"} & set(libraries)


def test_what_a_function_of_the_main_module_uses_is_in_the_bundle():
    import colorsys

    def of_main(value):
        return colorsys.rgb_to_hls(value, value, value)

    of_main.__module__ = "__main__"
    assert "colorsys" in libraries_of(cloudpickle.dumps(of_main))
    assert libraries_of(cloudpickle.dumps(1)) == []


def test_a_module_of_the_project_is_no_library():
    assert is_library(json) and is_library(pytest) and is_library(sys)
    assert not is_library(sys.modules[__name__])


@ONLY_LINUX
def test_a_library_that_starts_a_thread_or_keeps_a_file_open_is_not_imported(tmp_path):
    quiet, sleeping = "answer = 42\nprint('imported')", "import threading, time\n"
    sleeping += "threading.Thread(target=time.sleep, args=(9,), daemon=True).start()"
    for name, text in {
        "lib_a": quiet,
        "lib_b": sleeping,
        "lib_c": quiet,
        "lib_d": f"import lib_b\n{quiet}",
        "lib_e": "raise ImportError('broken')",
        "lib_f": "import os\nwords = os.open('/etc/hosts', os.O_RDONLY)",
        "lib_g": "import os\nos._exit(1)",
        "lib_h": "import wave",
    }.items():
        (tmp_path / f"{name}.py").write_text(text)
    loaded, threads = in_new_process(
        """
        import_libraries([f"lib_{each}" for each in "abcdefgh"])
        loaded = [name for name in sys.modules if name.startswith("lib_")]
        print(json.dumps([loaded, len(os.listdir("/proc/self/task"))]))
        """,
        tmp_path,
    )
    assert loaded == ["lib_a", "lib_c", "lib_h"]
    assert threads == 1


@ONLY_LINUX
def test_an_import_that_does_not_end_is_given_up(tmp_path):
    (tmp_path / "lib_slow.py").write_text("import time\ntime.sleep(60)")
    (tmp_path / "lib_good.py").write_text("")
    loaded = in_new_process(
        """
        import flinkbuf.targets.libraries as libraries
        libraries.TRIAL_S = 0.5
        import_libraries(["lib_slow", "lib_good"])
        print(json.dumps([name for name in sys.modules if name.startswith("lib_")]))
        """,
        tmp_path,
    )
    assert loaded == ["lib_good"]
