"""The bindings of csrc/, one module a stem. Users find what they need in `flinkbuf` itself."""

import os
import sys
from importlib.machinery import EXTENSION_SUFFIXES

_folder = os.path.dirname(__file__)
if not any(os.path.exists(os.path.join(_folder, f"buffer{suffix}")) for suffix in EXTENSION_SUFFIXES):
    raise ImportError(
        f"flinkbuf is not built for this Python ({sys.version.split()[0]}): there is no buffer{EXTENSION_SUFFIXES[0]} "
        f"in {_folder}. Run 'pip install -e .' in {os.path.dirname(os.path.dirname(_folder))}, or, if flinkbuf is "
        "installed elsewhere, do not start Python in this folder"
    )
del _folder
