// Subtasks: a map with one cell each, that shows a thousand at once, and a table that can be sorted.

import { meter } from "./graph.js";
import { h, s } from "./dom.js";
import { count, duration, eventTime, isTime, percent, rate } from "./format.js";
import { sortableTable, sorted } from "./sorting.js";

const FIRST_ROWS = 20;
const MAP_WIDTH = 1100;

export function subtaskMap(subtasks) {
  const side = subtasks.length > 400 ? 13 : subtasks.length > 60 ? 18 : 26;
  const columns = Math.min(subtasks.length, Math.floor(MAP_WIDTH / side));
  const rows = Math.ceil(subtasks.length / columns);
  const worst = [...subtasks].sort((one, other) => other.busy - one.busy)[0];
  const words = `One cell a subtask; the busiest is ${worst.subtask} with ${percent(worst.busy)}`;
  return s("svg", { class: "map", role: "img", "aria-label": words, width: columns * side, height: rows * side, viewBox: `0 0 ${columns * side} ${rows * side}` },
    s("defs", {}, s("pattern", { id: "hatch", width: "4", height: "4", patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" },
      s("rect", { width: "2", height: "4", class: "hatch" }))),
    subtasks.map((each, place) => {
      const x = (place % columns) * side;
      const y = Math.floor(place / columns) * side;
      const title = `subtask ${each.subtask}: ${each.status.toLowerCase()}, ${percent(each.busy)} busy, ${percent(each.back_pressured)} held back`;
      const isStill = each.status !== "RUNNING";
      return s("g", {},
        s("rect", { x, y, width: side - 2, height: side - 2, rx: 2.5, class: isStill ? `cell is-${each.status.toLowerCase()}` : "cell", style: `--busy:${each.busy}` }, s("title", {}, title)),
        each.back_pressured > 0.1 && s("rect", { x, y, width: side - 2, height: side - 2, rx: 2.5, class: "cell-held", style: `opacity:${(0.25 + 0.75 * each.back_pressured).toFixed(2)}` }));
    }));
}

const where = (each) => [each.taskmanager ?? "–", each.host].filter(Boolean).join(" · ");
const queued = (each) => `${count(each.queued_in)} / ${count(each.queued_out)}`;
const number = (key, title, text) => ({ key, title, isNumber: true, value: (each) => each[key] ?? -1, cell: (each) => text(each[key], each) });

const COLUMNS = [
  { key: "subtask", title: "Subtask", isDownFirst: false, value: (each) => each.subtask, cell: (each) => count(each.subtask) },
  { key: "status", title: "State", isDownFirst: false, value: (each) => each.status, cell: (each) => stateWords(each) },
  { key: "load", title: "Busy, held back", value: (each) => Math.max(each.busy, each.back_pressured), cell: load },
  number("records_in", "Records in", (value, each) => withBar(value, each.share_in)),
  number("records_in_rate", "In a second", rate),
  number("records_out", "Records out", count),
  number("records_out_rate", "Out a second", rate),
  { key: "queued", title: "Queued in / out", isNumber: true, value: (each) => (each.queued_in ?? 0) + (each.queued_out ?? 0), cell: queued },
  { key: "watermark", title: "Watermark", isNumber: true, value: (each) => each.watermark ?? -Infinity, cell: watermark },
  { key: "where", title: "Runs on", value: where, cell: where },
];

export function subtaskTable(subtasks, vertex, view, change) {
  const sorting = view.sorting ?? (subtasks.length > FIRST_ROWS ? { column: "load", isDown: true } : { column: "subtask", isDown: false });
  const most = Math.max(1, ...subtasks.map((each) => each.records_in ?? 0));
  const rows = sorted(subtasks.map((each) => ({ ...each, share_in: (each.records_in ?? 0) / most, ahead: vertex.watermark.highest, openAttempts: view.openAttempts })), COLUMNS, sorting);
  const shown = view.allRows ? rows : rows.slice(0, FIRST_ROWS);
  return [
    sortableTable({ id: "subtasks" }, `Subtasks of ${vertex.name}`, shown, COLUMNS, sorting, (next) => change({ sorting: next })),
    rows.length > FIRST_ROWS && h("button", { type: "button", class: "quiet more", onclick: () => change({ allRows: !view.allRows }) },
      view.allRows ? `Show the first ${FIRST_ROWS}` : `Show all ${count(rows.length)}`),
  ];
}

function load(each) {
  const words = each.back_pressured > each.busy ? `${percent(each.back_pressured)} held back` : `${percent(each.busy)} busy`;
  return h("span", { class: "load" }, meter(each), h("span", {}, words));
}

// A state; behind the second attempt stand those before.
function stateWords(each) {
  const words = `attempt ${each.attempt + 1}`;
  const attempts = each.openAttempts ? h("button", { type: "button", class: "text", onclick: () => each.openAttempts(each.subtask, each.attempt) }, words) : words;
  return h("span", { class: `state is-${each.status.toLowerCase()}` }, each.status.toLowerCase(), each.attempt > 0 && [" ", h("small", {}, attempts)]);
}

function withBar(value, share) {
  return h("span", { class: "share" }, h("i", { style: `width:${(share * 100).toFixed(1)}%` }), h("span", {}, count(value)));
}

function watermark(each) {
  if (!isTime(each.watermark)) return eventTime(each.watermark);
  const lag = isTime(each.ahead) ? each.ahead - each.watermark : 0;
  return [eventTime(each.watermark), lag > 0 && h("small", {}, `−${duration(lag)}`)];
}
