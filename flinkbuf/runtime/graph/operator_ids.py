"""Names of operators that stay the same from run to run: state is found again by them.

From the uid where the user gave one; else from the operator's place in the graph, so that the same program has the
same ids, and a changed one other ids. Flink: StreamGraphHasherV2 (with BLAKE2 for its hash).
"""

from __future__ import annotations

from collections import deque
from hashlib import blake2b

from flinkbuf.runtime.graph.stream_graph import StreamGraph, StreamNode, is_chainable

ID_BYTES = 16


def operator_ids(graph: StreamGraph) -> dict[int, str]:
    """Return the id (32 hex digits) of each node of the graph, by the node's number.

    Raises
    ------
    ValueError
        Two operators come to the same id: a uid_hash that was given twice.
    """
    hashes: dict[int, bytes] = {}
    pending = deque(node for node in graph.nodes if not node.in_edges)
    seen = {node.id for node in pending}
    while pending:
        node = pending.popleft()
        if any(edge.source.id not in hashes for edge in node.in_edges):
            seen.discard(node.id)  # it comes again, behind the last of its inputs
            continue
        hashes[node.id] = _hash(node, hashes, graph)
        for edge in node.out_edges:
            if edge.target.id not in seen:
                seen.add(edge.target.id)
                pending.append(edge.target)
    _check_unique(graph, hashes)
    return {id: value.hex() for id, value in hashes.items()}


def _hash(node: StreamNode, hashes: dict[int, bytes], graph: StreamGraph) -> bytes:
    transformation = node.transformation
    if node.id in graph.known_ids:
        return bytes.fromhex(graph.known_ids[node.id])
    if transformation.uid_hash is not None:
        return bytes.fromhex(transformation.uid_hash)
    if transformation.uid is not None:
        return blake2b(transformation.uid.encode(), digest_size=ID_BYTES, person=b"uid").digest()
    place = [len(hashes)] * (1 + sum(is_chainable(edge, graph.settings) for edge in node.out_edges))
    inputs = b"".join(hashes[edge.source.id] for edge in node.in_edges)
    return blake2b(repr(place).encode() + inputs, digest_size=ID_BYTES, person=b"place").digest()


def _check_unique(graph: StreamGraph, hashes: dict[int, bytes]) -> None:
    owners: dict[bytes, StreamNode] = {}
    for node in graph.nodes:
        owner = owners.setdefault(hashes[node.id], node)
        if owner is not node:
            raise ValueError(
                f"operators {owner.name!r} and {node.name!r} have the same id {hashes[node.id].hex()}: give "
                "each a uid or uid hash of its own"
            )
