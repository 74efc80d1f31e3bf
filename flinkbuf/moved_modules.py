"""Modules under the names that they had before they got rooms: savepoints name the classes of what they hold.

``flinkbuf.streaming.file_split`` is ``flinkbuf.streaming.sources.file_split`` now, and so is each module of `_core`,
`streaming` and `spark`; what was in ``flinkbuf.jobs`` is in a room of `runtime` or in `targets`. Python asks the finder
below only for what it has not found itself.
"""

from __future__ import annotations

import warnings
from importlib import import_module
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

_PACKAGE = Path(__file__).parent
_ROOMS = {
    "_core": ("_core/*",),
    "streaming": ("streaming/*",),
    "spark": ("spark/*",),
    "jobs": ("runtime/*", "targets"),
}
_FOLDERS = {"flinkbuf.jobs", "flinkbuf.jobs.graphs", "flinkbuf.jobs.manager", "flinkbuf.jobs.master"}


class MovedModuleLoader(Loader):
    """Fills a module of an old name with what the one of the new name has."""

    def __init__(self, home: str) -> None:
        self.home = home

    def exec_module(self, module: ModuleType) -> None:
        """Take over all but what Python has set on the module itself."""
        names = vars(import_module(self.home))
        vars(module).update({name: value for name, value in names.items() if name not in vars(module)})
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
        top, _, leaf = rest.partition(".")
        if package != "flinkbuf" or top not in _ROOMS:
            return None
        if name in _FOLDERS:
            return ModuleSpec(name, None, is_package=True)
        leaf = leaf.rpartition(".")[2]
        for room in _ROOMS[top]:
            for file in _PACKAGE.glob(f"{room}/{leaf}.*"):
                home = ".".join(("flinkbuf", *file.relative_to(_PACKAGE).parent.parts, leaf))
                return ModuleSpec(name, MovedModuleLoader(home))
        return None
