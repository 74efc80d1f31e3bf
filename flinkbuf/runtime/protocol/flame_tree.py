"""Stacks of a sampled thread, added up as a tree: what Flink's flame graphs are drawn from.

A node is ``{"name", "on", "off", "children"}``: how many samples of a thread that worked, and of one that waited, went
through this call. Flink: VertexFlameGraph.Node, VertexFlameGraphFactory.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from flinkbuf.runtime.protocol.messages import Json

ROOT_NAME: Final = "root"
KINDS: Final = {"FULL": ("on", "off"), "ON_CPU": ("on",), "OFF_CPU": ("off",)}  # as Flink names them
TERMINATED: Final = {"endTimestamp": -1}  # what is said of a task that does not run; Flink's number
MORE: Final = "…"  # what there is no room for


class FlameTree:
    """A tree that grows by stacks, and by other trees, up to a number of nodes.

    Parameters
    ----------
    nodes_max : int
        What comes after so many nodes is counted to `MORE` below the last call that there is.

    Examples
    --------
    >>> tree = FlameTree(nodes_max=10)
    >>> tree.add(["run:1", "parse:7"], is_on_cpu=True)
    >>> tree.add(["run:1", "read:3"], is_on_cpu=False)
    >>> tree.shown("ON_CPU")
    {'name': 'root', 'value': 1, 'children': [{'name': 'run:1', 'value': 1, 'children': \
[{'name': 'parse:7', 'value': 1, 'children': []}]}]}
    """

    def __init__(self, nodes_max: int) -> None:
        self.root: Json = _node(ROOT_NAME)
        self._places: dict[int, dict[str, Json]] = {}  # children of a node by their names
        self._count, self._most = 1, nodes_max

    @property
    def sample_count(self) -> int:
        """Return the number of samples added."""
        count: int = self.root["on"] + self.root["off"]
        return count

    def add(self, stack: Iterable[str], *, is_on_cpu: bool) -> None:
        """Add one sample, the outermost call first."""
        kind = "on" if is_on_cpu else "off"
        node = self.root
        node[kind] += 1
        for name in stack:
            node = self._child(node, name)
            node[kind] += 1
            if node["name"] == MORE:
                return

    def merge(self, tree: Json) -> None:
        """Add another tree.

        Raises
        ------
        ValueError
            The other is no tree.
        """
        pending = [(self.root, tree)]
        while pending:
            mine, other = pending.pop()
            try:
                mine["on"] += int(other["on"])
                mine["off"] += int(other["off"])
                children = [(str(child["name"]), child) for child in other["children"]]
            except (KeyError, TypeError, ValueError) as error:
                raise ValueError(f"not a tree of calls: {other!r:.200}") from error
            if mine["name"] == MORE:
                continue
            pending += [(self._child(mine, name), child) for name, child in children]

    def shown(self, kind: str) -> Json:
        """Return the tree as Flink's ``{"name", "value", "children"}``, of samples of one of `KINDS`."""
        names = KINDS[kind]

        def value_of(node: Json) -> int:
            return sum(node[name] for name in names)

        shown: Json = {"name": ROOT_NAME, "value": value_of(self.root), "children": []}
        pending = [(self.root, shown)]
        while pending:
            node, made = pending.pop()
            for child in node["children"]:
                if value := value_of(child):
                    made["children"].append({"name": child["name"], "value": value, "children": []})
                    pending.append((child, made["children"][-1]))
        return shown

    def _child(self, node: Json, name: str) -> Json:
        places = self._places.setdefault(id(node), {})
        found = places.get(name)
        if found is None:
            if self._count >= self._most and name != MORE:
                return self._child(node, MORE)
            found = places[name] = _node(name)
            node["children"].append(found)
            self._count += 1
        return found


def _node(name: str) -> Json:
    return {"name": name, "on": 0, "off": 0, "children": []}
