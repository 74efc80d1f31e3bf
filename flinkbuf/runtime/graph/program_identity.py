"""What tells a program from another one that gives its job the same name, whatever its parallelism and settings are.

A job that another program has left may only be taken over by the same program: its state, and the place to which its
sources have come, mean nothing to another one. Flink: the fixed job id of a cluster in application mode.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from hashlib import sha256

from flinkbuf.runtime.graph.stream_graph import StreamEdge, StreamGraph, StreamNode

_DEPENDS_ON_PARALLELISM = ("FORWARD", "REBALANCE")  # what is not said becomes one or the other


@dataclass(frozen=True)
class ProgramIdentity:
    """A digest of a program, and its operators for people.

    Examples
    --------
    >>> identity = ProgramIdentity("ab" * 32, "Source: numbers, Map")
    >>> ProgramIdentity.of_text(identity.to_text()) == identity
    True
    """

    digest: str
    operators: str

    @classmethod
    def of(cls, graph: StreamGraph, program_text: str = "") -> ProgramIdentity:
        """Return the identity of a program: its operators and how records get from one to the other.

        An operator is known by its uid, else by its name. `program_text` is what the program is known by besides.
        """
        numbers = {node.id: number for number, node in enumerate(graph.nodes)}
        nodes = [[_known_by(node), [_way(edge, numbers) for edge in node.in_edges]] for node in graph.nodes]
        text = json.dumps([graph.settings.is_batch, nodes, program_text])
        return cls(sha256(text.encode()).hexdigest(), ", ".join(node.name for node in graph.nodes))

    def to_text(self) -> str:
        """Return the identity as text."""
        return f"{self.digest} {self.operators}"

    @classmethod
    def of_text(cls, text: str) -> ProgramIdentity:
        """Read the text that `to_text` gave."""
        return cls(*text.split(" ", 1))


def _known_by(node: StreamNode) -> list[str]:
    transformation = node.transformation
    if transformation.uid_hash is not None:
        return ["hash", transformation.uid_hash]
    return ["uid", transformation.uid] if transformation.uid is not None else ["name", node.name]


def _way(edge: StreamEdge, numbers: dict[int, int]) -> list[object]:
    strategy = "" if edge.ship_strategy in _DEPENDS_ON_PARALLELISM else edge.ship_strategy
    return [numbers[edge.source.id], edge.input_number, strategy, edge.output_tag]


def text_of_program() -> str:
    """Return the script that runs and its arguments; '' in a notebook, where neither is known."""
    path = getattr(sys.modules["__main__"], "__file__", None)
    if path is not None:
        try:
            with open(path, encoding="utf-8", errors="replace") as script:
                return json.dumps([script.read(), sys.argv[1:]])
        except OSError:
            return json.dumps([path, sys.argv[1:]])
    if "-c" in sys.orig_argv:
        return json.dumps(sys.orig_argv[sys.orig_argv.index("-c") + 1 :])
    return ""
