"""Which flinkbuf this is: its version, and what tells two builds of one version apart."""

from functools import cache
from importlib import import_module

__version__ = "0.1.0"


@cache
def build_version() -> str:
    """Return the version and an id of the sources, such as ``0.1.0+3f2a91c4``: equal wherever these are, once compiled.

    Driver and workers must have the same, since they exchange functions and bytes of their own.
    """
    try:
        build_id = import_module("flinkbuf._build").BUILD_ID  # setup.py notes it in what is installed
    except ImportError:  # a tree that is run in place
        import os

        build_id = sources_id(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    return f"{__version__}+{build_id}"


def sources_id(root: str) -> str:
    """Return eight hex digits for the names and bytes of all sources below a tree's root; takes some 20 ms."""
    import hashlib
    import os

    digest = hashlib.sha256()
    for top, endings in (("flinkbuf", (".py", ".pyx", ".pxd", ".h")), ("csrc", (".c", ".h"))):
        for folder, folders, names in os.walk(os.path.join(root, top)):
            folders.sort()
            for name in sorted(names):
                if name.endswith(endings) and name != "_build.py":
                    path = os.path.join(folder, name)
                    with open(path, "rb") as file:
                        data = file.read()
                    digest.update(f"{os.path.relpath(path, root)}\0{len(data)}\0".encode() + data)
    return digest.hexdigest()[:8]
