"""What a process needs to run any task of a job, apart from which: the user's functions, settings, files.

It reaches the process by the way that starts it (a pipe, Spark's closure), never through the control plane, so the
functions of a job are only ever unpickled from what its own program sent. Flink: JobInformation, TaskInformation.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import cloudpickle

from flinkbuf.config import NetworkConfig
from flinkbuf.runtime.graph.main_module import install_main_classes, main_classes
from flinkbuf.runtime.graph.user_code import PickledChain
from flinkbuf.runtime.manager.task_log import TEXT
from flinkbuf.streaming.chain.operator_config import ExecutionSettings

if TYPE_CHECKING:
    from flinkbuf.runtime.graph.job_graph import JobGraph

DEFAULT_MANAGED_MEMORY = 128 * 1024**2


@dataclass(frozen=True)
class JobBundle:
    """The part of a job that is the same for all its task managers.

    Attributes
    ----------
    job_id, job_name : str
    chains : dict
        The operators of each vertex, by its id.
    settings : ExecutionSettings
    network : NetworkConfig or None
        Of the data plane; None where all is one process.
    network_segments : int or None
        Buffers that one slot needs at most; None: what the configuration says.
    managed_memory_bytes : int
        Of one slot.
    files : JobFiles
        What functions need beside the program; the target brings it to each process. Empty: nothing.
    temporary_directories : tuple of str
        Where a batch job keeps what its tasks write; empty: where the system does.
    sys_path : tuple of str
        Where else modules are looked for.
    working_directory : str or None
        Where relative paths begin.
    log_format : str
        ``TEXT`` or ``JSON``: how its processes log.
    """

    job_id: str
    job_name: str
    chains: dict[str, PickledChain]
    settings: ExecutionSettings = field(default_factory=ExecutionSettings)
    network: NetworkConfig | None = None
    network_segments: int | None = None
    managed_memory_bytes: int = DEFAULT_MANAGED_MEMORY
    files: object = ()
    temporary_directories: tuple[str, ...] = ()
    sys_path: tuple[str, ...] = ()
    working_directory: str | None = None
    log_format: str = TEXT

    @classmethod
    def of(
        cls,
        graph: JobGraph,
        job_id: str,
        settings: ExecutionSettings,
        *,
        vertex_ids: Collection[str] | None = None,
        **fields: Any,
    ) -> JobBundle:
        """Pickle the operators of a job's vertices, or of some of them; `fields` are the other attributes.

        Raises
        ------
        TypeError
            A function, or what it holds, cannot be pickled.
        """
        chains = {
            vertex.id: PickledChain.of(vertex)
            for vertex in graph.vertices
            if vertex_ids is None or vertex.id in vertex_ids
        }
        return cls(job_id, graph.settings.job_name, chains, settings, **fields)

    def chain_of(self, vertex_id: str) -> PickledChain:
        """Return the operators of a vertex.

        Raises
        ------
        LookupError
            The bundle has no such vertex.
        """
        try:
            return self.chains[vertex_id]
        except KeyError:
            raise LookupError(
                f"the operators of vertex {vertex_id} did not come with job {self.job_name!r} to this process; it has "
                f"those of {', '.join(sorted(self.chains)) or 'none'}"
            ) from None

    def __reduce__(self) -> tuple[object, ...]:
        """Go to another process together with the classes of this program's main module."""
        return _arrive, (main_classes(), dict(self.__dict__))

    def to_bytes(self) -> bytes:
        """Return the bundle as bytes for another process."""
        data: bytes = cloudpickle.dumps(self)
        return data

    @classmethod
    def from_bytes(cls, data: bytes) -> JobBundle:
        """Read the bytes of `to_bytes`; only from a sender that may run code here."""
        bundle = cloudpickle.loads(data)
        if not isinstance(bundle, cls):
            raise TypeError(f"these bytes hold a {type(bundle).__name__}, not a JobBundle")
        return bundle


def _arrive(classes: dict[str, bytes], fields: dict[str, Any]) -> JobBundle:
    install_main_classes(classes)
    return JobBundle(**fields)
