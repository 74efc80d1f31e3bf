// The job's tasks as boxes, redder as they are busier, hatched and darker as they are held back. A box is a button.

import { h, s } from "./dom.js";
import { count, duration, eventTime, isTime, percent, plural, rate } from "./format.js";
import { BOX, layout } from "./layout.js";
import { busy, heldBack } from "./standing.js";

export function graph(picture, chosenId, choose) {
  if (!picture.vertices.length) return h("p", { class: "empty" }, "The job has no tasks.");
  const places = layout(picture.vertices, picture.edges);
  const most = Math.max(1, ...picture.vertices.map((vertex) => vertex.rates.records_out));
  return h("div", { class: "graph-scroll" },
    h("div", { class: "graph", style: `width:${places.width}px;height:${places.height}px` },
      edges(places, picture, most),
      picture.vertices.map((vertex) => box(vertex, places.boxes.get(vertex.id), vertex.id === chosenId, choose))));
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

function box(vertex, place, isChosen, choose) {
  const [first, ...rest] = vertex.name.split(" -> ");
  const isAlive = vertex.busiest !== null;
  return h("button", {
    key: vertex.id, type: "button", class: `box${isAlive ? "" : " is-still"}`, "aria-pressed": String(isChosen), "aria-label": spoken(vertex),
    style: `left:${place.x}px;top:${place.y}px;width:${BOX.width}px;height:${BOX.height}px;--busy:${vertex.busy};--held:${vertex.back_pressured}`,
    "data-vertex": vertex.id, onclick: () => choose(vertex.id), title: vertex.name,
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

function ratesText({ rates, totals }) {
  const parts = [];
  if (totals.records_in) parts.push(`${rate(rates.records_in)} in`);
  if (totals.records_out || !totals.records_in) parts.push(`${rate(rates.records_out)} out`);
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
