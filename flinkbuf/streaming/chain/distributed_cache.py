"""Files that the program registered by a name, where a function runs. Flink: DistributedCache."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


class DistributedCache:
    """What ``RuntimeContext.get_distributed_cache()`` gives.

    Parameters
    ----------
    paths : mapping of str to str
        Where each file lies on this machine.

    Examples
    --------
    >>> DistributedCache({"airports": "/data/airports.csv"}).get_file("airports").name
    'airports.csv'
    """

    def __init__(self, paths: Mapping[str, str]) -> None:
        self._paths = paths

    def get_file(self, name: str) -> Path:
        """Return where the file is that was registered by this name; of an archive, where it was unpacked.

        Raises
        ------
        ValueError
            If no file was registered by this name.
        """
        if name not in self._paths:
            known = ", ".join(repr(each) for each in sorted(self._paths)) or "none is"
            raise ValueError(
                f"File with name '{name}' is not available. Did you forget to register the file? Call "
                f"env.register_cached_file(path, {name!r}); registered: {known}"
            )
        return Path(self._paths[name])
