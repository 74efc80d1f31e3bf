"""Modules under the names that they had before they got rooms: savepoints name the classes of what they hold.

``flinkbuf.streaming.file_split`` is ``flinkbuf.streaming.sources.file_split`` now, and so are the other modules of
`_core`, `streaming` and `spark`; what was in ``flinkbuf.jobs`` is in a room of `runtime` or in `targets`. A name that a
room has now (``flinkbuf.streaming.state``) is the room. Python asks the finder below only for what it has not found.
"""

from __future__ import annotations

import sys
import warnings
from importlib import import_module
from importlib.abc import Loader
from importlib.machinery import EXTENSION_SUFFIXES, ModuleSpec
from pathlib import Path
from types import ModuleType

_PACKAGE = Path(__file__).parent
_ROOMS = {
    "_core": ("_core/*",),
    "streaming": ("streaming/*",),
    "spark": ("spark/*",),
    "jobs": ("runtime/*", "targets"),
    "jobs.graphs": ("runtime/graph",),
    "jobs.manager": ("runtime/manager",),
    "jobs.master": ("runtime/*",),
}


class MovedModuleLoader(Loader):
    """Puts the module of the new name in the place of the old one."""

    def __init__(self, home: str) -> None:
        self.home = home

    def exec_module(self, module: ModuleType) -> None:
        """Import the module of the new name; `sys.modules` has it under both."""
        sys.modules[module.__name__] = import_module(self.home)
        warnings.warn(f"{module.__name__} is {self.home} now", DeprecationWarning, stacklevel=2)


class MovedModules:
    """A finder for `sys.meta_path`."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """Return how the module of an old name is loaded; None: it never was one.

        Examples
        --------
        >>> MovedModules.find_spec("flinkbuf.streaming.file_split").loader.home
        'flinkbuf.streaming.sources.file_split'
        >>> MovedModules.find_spec("flinkbuf.streaming.fiel_split")
        """
        package, _, rest = name.partition(".")
        if package != "flinkbuf":
            return None
        if rest.startswith("jobs") and rest in _ROOMS:
            return ModuleSpec(name, None, is_package=True)
        folder, _, leaf = rest.rpartition(".")
        if not leaf.isidentifier():
            return None
        for room in _ROOMS.get(folder, ()):
            for suffix in (".py", *EXTENSION_SUFFIXES):
                for file in _PACKAGE.glob(f"{room}/{leaf}{suffix}"):
                    return ModuleSpec(name, MovedModuleLoader(_name_of(file.with_name(leaf))))
        return None


def _name_of(path: Path) -> str:
    return ".".join(("flinkbuf", *path.relative_to(_PACKAGE).parts))
