"""What `import flinkbuf` gives, and what it leaves alone."""

import subprocess
import sys

import flinkbuf as fb


def in_a_new_interpreter(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def test_every_public_name_is_there():
    assert sorted(fb.__all__) == sorted(set(fb.__all__))
    assert all(getattr(fb, name) is not None for name in fb.__all__)


def test_importing_it_imports_no_large_library_and_starts_nothing():
    large = ["numpy", "pyspark", "pyarrow", "pandas", "matplotlib", "rich"]
    found = in_a_new_interpreter(
        "import sys, threading, flinkbuf; "
        f"print([name for name in {large} if name in sys.modules], threading.active_count())"
    )
    assert found == "[] 1"


def test_records_need_no_numpy():
    code = (
        "import sys, flinkbuf as fb; t = fb.as_type('a bigint, s string'); "
        "buffers = [b for _, b in fb.write_buffers([(1, 'x')], t, 2, fb.by_key('a'))]; "
        "print(list(fb.read_buffers(buffers, t)), 'numpy' in sys.modules)"
    )
    assert in_a_new_interpreter(code) == "[Row(a=1, s='x')] False"
