// The job's tasks as boxes, darker as they are busier, hatched as they are held back; of many tasks a list. What can be
// chosen is a button.

import { h, s } from "./dom.js";
import { count, duration, eventTime, isTime, percent, plural, rate, short } from "./format.js";
import { BOX, layout } from "./layout.js";
import { sortableTable, sorted } from "./sorting.js";
import { busy, heldBack } from "./standing.js";

const MOST_BOXES = 60; // a graph of more is no picture any more: a list is
const ZOOMS = [0.2, 0.3, 0.45, 0.7, 1, 1.4];

export function graph(picture, view, change) {
  const { vertices } = picture;
  if (!vertices.length) return h("p", { class: "empty" }, "The job has no tasks.");
  const found = matching(vertices, view.search);
  const isList = vertices.length > MOST_BOXES;
  return [
    vertices.length > 1 && tools(picture, view, found, change, isList),
    isList ? vertexList(picture, view, found, change) : boxes(picture, view, found, change),
  ];
}

const matching = (vertices, search) => {
  const wanted = search.trim().toLowerCase();
  return wanted ? vertices.filter((vertex) => vertex.name.toLowerCase().includes(wanted)) : vertices;
};

function tools({ vertices }, view, found, change, isList) {
  const next = (event) => {
    event.preventDefault();
    const place = found.findIndex((vertex) => vertex.id === view.vertexId);
    if (found.length) change({ vertexId: found[(place + 1) % found.length].id, isSought: true });
  };
  const step = (by) => ZOOMS[Math.max(0, Math.min(ZOOMS.length - 1, nearest(view.zoom) + by))];
  const fit = (event) => {
    const { parentNode } = event.target.closest(".tools");
    change({ zoom: Math.max(ZOOMS[0], Math.min(1, (parentNode.clientWidth - 40) / parentNode.querySelector(".graph").offsetWidth)) });
  };
  return h("form", { class: "tools", role: "search", onsubmit: next },
    h("input", { type: "search", id: "search", placeholder: "Find a task", "aria-label": "Find a task", autocomplete: "off", spellcheck: "false", value: view.search, oninput: (event) => change({ search: event.target.value }) }),
    h("span", { class: "aside", role: "status" }, view.search.trim() ? `${count(found.length)} of ${plural(vertices.length, "task")}` : plural(vertices.length, "task")),
    !isList && h("span", { class: "choices", role: "group", "aria-label": "Size of the graph" },
      h("button", { type: "button", "aria-label": "Smaller", onclick: () => change({ zoom: step(-1) }) }, "−"),
      h("button", { type: "button", onclick: fit }, "Fit"),
      h("button", { type: "button", "aria-label": "Larger", onclick: () => change({ zoom: step(1) }) }, "+")));
}

function nearest(zoom) {
  const distances = ZOOMS.map((each) => Math.abs(Math.log(each / zoom)));
  return distances.indexOf(Math.min(...distances));
}

function boxes(picture, view, found, change) {
  const places = layout(picture.vertices, picture.edges);
  const most = Math.max(1, ...picture.vertices.map((vertex) => vertex.rates.records_out));
  const shown = new Set(found.map((vertex) => vertex.id));
  const wheel = (event) => {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    change({ zoom: Math.max(ZOOMS[0], Math.min(ZOOMS[ZOOMS.length - 1], view.zoom * 0.998 ** event.deltaY)) });
  };
  return h("div", { class: "graph-scroll", onwheel: wheel },
    h("div", { class: "graph-room", style: `width:${places.width * view.zoom}px;height:${places.height * view.zoom}px` },
      h("div", { class: "graph", style: `width:${places.width}px;height:${places.height}px;transform:scale(${view.zoom})` },
        edges(places, picture, most),
        picture.vertices.map((vertex) => box(vertex, places.boxes.get(vertex.id), picture, view, shown, change)))));
}

// The task that holds others back, and one that has failed, are the only ones with a colour: somebody has to look.
function trouble(vertex, picture) {
  if (vertex.status === "FAILED") return " is-bad";
  const stuck = picture.answers[1];
  return stuck.vertex === vertex.id && (stuck.level === "bad" || stuck.level === "fair") ? ` is-${stuck.level}` : "";
}

const LIST = [
  { key: "task", title: "Task", isDownFirst: false, value: (each) => each.place, cell: (each) => h("button", { type: "button", class: "text", "data-vertex": each.vertex.id, "aria-pressed": String(each.isChosen), title: each.vertex.name, onclick: each.choose }, each.vertex.name) },
  { key: "width", title: "Subtasks", isNumber: true, value: (each) => each.vertex.parallelism, cell: (each) => count(each.vertex.parallelism) },
  { key: "state", title: "State", isDownFirst: false, value: (each) => each.vertex.status, cell: (each) => h("span", { class: `state is-${each.vertex.status.toLowerCase()}` }, each.vertex.status.toLowerCase()) },
  { key: "in", title: "In", isNumber: true, value: (each) => each.vertex.rates.records_in, cell: (each) => flow(each.vertex.rates, "in") },
  { key: "out", title: "Out", isNumber: true, value: (each) => each.vertex.rates.records_out, cell: (each) => flow(each.vertex.rates, "out") },
  { key: "load", title: "Busy, held back", value: (each) => Math.max(busy(each.vertex), heldBack(each.vertex)), cell: (each) => h("span", { class: "load" }, meter(each.vertex), h("span", { class: each.trouble }, each.vertex.busiest ? worst(each.vertex) : "")) },
  { key: "lag", title: "Event time behind", isNumber: true, value: (each) => each.vertex.watermark.lag ?? -Infinity, cell: (each) => duration(each.vertex.watermark.lag) },
];

function vertexList(picture, view, found, change) {
  const sorting = view.listSorting ?? { column: "task", isDown: false };
  const rows = found.map((vertex) => ({
    key: vertex.id, vertex, place: picture.vertices.indexOf(vertex), isChosen: vertex.id === view.vertexId, trouble: trouble(vertex, picture).trim(),
    choose: () => change({ vertexId: vertex.id }),
  }));
  return h("div", { class: "list" }, sortableTable({ id: "vertices" }, "Tasks of the job", sorted(rows, LIST, sorting), LIST, sorting, (next) => change({ listSorting: next })));
}

export function legend() {
  return h("p", { class: "legend" },
    h("span", {}, h("i", { class: "swatch busy" }), "busy"),
    h("span", {}, h("i", { class: "swatch held" }), "held back"),
    h("span", {}, h("i", { class: "swatch idle" }), "idle"));
}

function edges(places, picture, most) {
  const byId = new Map(picture.vertices.map((vertex) => [vertex.id, vertex]));
  return s("svg", { class: "edges", width: places.width, height: places.height, "aria-hidden": "true" },
    s("defs", {}, s("marker", { id: "tip", viewBox: "0 0 8 8", refX: "1", refY: "4", markerWidth: "8", markerHeight: "8", markerUnits: "userSpaceOnUse", orient: "auto" },
      s("path", { d: "M0 0L8 4L0 8z" }))),
    places.paths.map(({ edge, d, x, y }, number) => {
      const isFirst = picture.edges.findIndex((each) => each.source === edge.source && each.target === edge.target) === number;
      const share = byId.get(edge.source).rates.records_out / most;
      return s("g", { class: heldBack(byId.get(edge.source)) > 0.1 ? "edge is-held" : "edge" },
        s("path", { d, "marker-end": "url(#tip)", style: `stroke-width:${(1.25 + 2.25 * share).toFixed(2)}px` }),
        isFirst && s("text", { x, y: y - 8, "text-anchor": "middle" }, edge.ship_strategy.toLowerCase()));
    }));
}

function box(vertex, place, picture, view, shown, change) {
  const [first, ...rest] = vertex.name.split(" -> ");
  const isAlive = vertex.busiest !== null;
  return h("button", {
    key: vertex.id, type: "button", class: `box${isAlive ? "" : " is-still"}${shown.has(vertex.id) ? "" : " is-dim"}${trouble(vertex, picture)}`, "aria-pressed": String(vertex.id === view.vertexId), "aria-label": spoken(vertex),
    style: `left:${place.x}px;top:${place.y}px;width:${BOX.width}px;height:${BOX.height}px;--busy:${vertex.busy};--held:${vertex.back_pressured}`,
    "data-vertex": vertex.id, onclick: () => change({ vertexId: vertex.id }), title: vertex.name,
  },
  h("span", { class: "box-name" }, h("b", {}, first), h("span", { class: "box-width" }, `× ${count(vertex.parallelism)}`)),
  h("span", { class: "box-chain" }, rest.length ? `→ ${rest.join(" → ")}` : "\u00a0"),
  h("span", { class: "box-rates" }, ratesText(vertex)),
  h("span", { class: "box-worst" }, isAlive ? worst(vertex) : vertex.status.toLowerCase()),
  meter(vertex));
}

export function meter({ busy: busyShare, back_pressured: heldShare }) {
  return h("span", { class: "meter" },
    h("i", { class: "busy", style: `width:${(busyShare * 100).toFixed(1)}%` }),
    h("i", { class: "held", style: `width:${(heldShare * 100).toFixed(1)}%` }));
}

// Records that are batches of columns are told by their rows.
function flow(rates, way) {
  const rows = rates[`rows_${way}`];
  return rows ? `${short(rows)} rows/s` : rate(rates[`records_${way}`]);
}

function ratesText({ rates, totals }) {
  const parts = [];
  if (totals.records_in) parts.push(`${flow(rates, "in")} in`);
  if (totals.records_out || !totals.records_in) parts.push(`${flow(rates, "out")} out`);
  return parts.join(" · ");
}

function worst(vertex) {
  const of = (standing) => (vertex.parallelism > 1 ? ` in ${standing.subtask}` : "");
  if (heldBack(vertex) > Math.max(0.1, busy(vertex))) return `${percent(heldBack(vertex))} held back${of(vertex.most_held_back)}`;
  return `${percent(busy(vertex))} busy${of(vertex.busiest)}`;
}

function spoken(vertex) {
  const { lowest, lag } = vertex.watermark;
  const time = isTime(lowest) ? `, event time ${eventTime(lowest)}${lag === null ? "" : `, ${duration(lag)} behind`}` : "";
  const worstOne = vertex.busiest ? `, ${worst(vertex)}` : "";
  return `${vertex.name}, ${plural(vertex.parallelism, "subtask")}, ${vertex.status.toLowerCase()}, ${percent(vertex.busy)} busy, ${percent(vertex.back_pressured)} held back${worstOne}, ${ratesText(vertex)}${time}`;
}
