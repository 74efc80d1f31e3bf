// A flame graph of one task: what its threads were doing when they were looked at, the outermost call on top.

import { flameGraph } from "./api.js";
import { h } from "./dom.js";
import { clock, count, percent, shortName } from "./format.js";

const ROW = 20;
const NARROWEST = 0.0015; // of the width: what is narrower is left out
const KINDS = [["full", "All"], ["on_cpu", "Working"], ["off_cpu", "Waiting"]];
const WAITS = { "-1": "The task does not run: there is nothing to look at.", "-2": "Flame graphs are switched off: rest.flamegraph.enabled.", "-3": "Looking at its threads …" };

export const closed = { vertexId: null, kind: "full", subtask: null, graph: null, error: null, focus: [], seen: 0 }; // seen: when the graph was made that is not wanted any more

export async function look(jobId, flame) {
  try {
    return { graph: await flameGraph(jobId, flame.vertexId, flame.kind, flame.subtask), error: null };
  } catch (error) {
    return { error: error.message };
  }
}

export function flameDialog(vertex, flame, change) {
  const { graph } = flame;
  const hasData = graph && graph.endTimestamp > 0 && graph.data;
  const root = hasData ? focused(graph.data, flame.focus) : null;
  return h("dialog", { class: "flame", "aria-labelledby": "flame-title", onclose: () => change({ ...closed }) },
    h("header", { class: "card-head" },
      h("h2", { id: "flame-title" }, `Flame graph of ${shortName(vertex.name)}`),
      h("button", { type: "button", class: "quiet", onclick: () => change({ ...closed }) }, "Close")),
    h("div", { class: "flame-choices" },
      h("div", { class: "choices", role: "group", "aria-label": "Which samples" }, KINDS.map(([kind, title]) =>
        h("button", { type: "button", "aria-pressed": String(kind === flame.kind), onclick: () => change({ kind, graph: null, focus: [] }) }, title))),
      h("label", {}, "Subtask ", h("select", { onchange: (event) => change({ subtask: event.target.value === "" ? null : Number(event.target.value), graph: null, focus: [] }) },
        h("option", { value: "" }, "all"), Array.from({ length: Math.min(vertex.parallelism, 1000) }, (_, place) => h("option", { value: String(place) }, String(place))))),
      hasData && h("span", { class: "aside" }, `${count(graph.data.value)} samples at ${clock(graph.endTimestamp)}`),
      hasData && h("button", { type: "button", class: "quiet", onclick: () => change({ seen: graph.endTimestamp }), disabled: flame.seen === graph.endTimestamp }, flame.seen === graph.endTimestamp ? "Looking …" : "Look again"),
      flame.focus.length > 0 && h("button", { type: "button", class: "quiet", onclick: () => change({ focus: [] }) }, "Show all of it")),
    flame.error && h("p", { class: "is-bad" }, flame.error),
    root && root.value > 0 ? flames(root, flame, change) : h("p", { class: "empty", role: "status" }, root ? "No such sample was seen." : WAITS[graph?.endTimestamp ?? -3]));
}

function focused(root, path) {
  return path.reduce((node, name) => node.children.find((child) => child.name === name) ?? node, root);
}

function flames(root, flame, change) {
  const rows = [];
  place(root, 0, 0, root.value, flame.focus, rows);
  const depth = Math.max(...rows.map((each) => each.depth)) + 1;
  return h("div", { class: "flames", style: `height:${depth * ROW}px`, role: "tree", "aria-label": "Calls, the outermost first" },
    rows.map((each) => h("button", {
      type: "button", role: "treeitem", "aria-level": String(each.depth + 1), class: `flame-row hue-${each.hue}`,
      style: `left:${(each.left * 100).toFixed(3)}%;width:${(each.width * 100).toFixed(3)}%;top:${each.depth * ROW}px`,
      title: `${each.node.name}\n${count(each.node.value)} samples, ${percent(each.node.value / root.value)}`,
      "aria-label": `${each.node.name}, ${percent(each.node.value / root.value)}`,
      onclick: () => change({ focus: each.path }),
    }, each.width > 0.02 ? each.node.name : "")));
}

function place(node, depth, left, whole, path, rows) {
  rows.push({ node, depth, left, width: node.value / whole, path, hue: hueOf(node.name) });
  let start = left;
  for (const child of [...node.children].sort((one, other) => one.name.localeCompare(other.name))) {
    const width = child.value / whole;
    if (width >= NARROWEST) place(child, depth + 1, start, whole, [...path, child.name], rows);
    start += width;
  }
}

// Whether another look is to be asked for: there is no graph yet, or only the one that was seen.
export const isWaiting = (flame) => !flame.error && (flame.graph === null || flame.graph.endTimestamp === -3 || (flame.seen > 0 && flame.graph.endTimestamp === flame.seen));

// What is flinkbuf's own, Python's own, and the program's are told apart.
function hueOf(name) {
  if (name === "root") return "python";
  if (name.startsWith("flinkbuf.")) return "ours";
  return /^(threading|queue|selectors|socket|importlib|runpy|_|<)/.test(name) ? "python" : "program";
}
