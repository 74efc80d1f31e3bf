// The task that was chosen in the graph: how it went in the last two minutes, its operators, its subtasks.

import { lineChart } from "./charts.js";
import { h } from "./dom.js";
import { count, duration, eventTime, isTime, percent, plural, rate, size } from "./format.js";
import { subtaskMap, subtaskTable } from "./subtasks.js";

export function task(vertex, picture, view, change) {
  const { history, totals, rates } = vertex;
  const isSource = !totals.records_in;
  const way = isSource ? "out" : "in";
  const what = totals[`rows_${way}`] ? "rows" : "records";
  return h("section", { class: "card", id: "task", "aria-labelledby": "task-title" },
    h("header", { class: "card-head" },
      h("h2", { id: "task-title" }, vertex.name),
      h("button", { type: "button", class: "quiet", onclick: view.openFlame, "aria-haspopup": "dialog" }, "Flame graph")),
    h("dl", { class: "facts" },
      fact("Subtasks", `${count(vertex.parallelism)} of at most ${count(vertex.maxParallelism)}`),
      ...flowFacts("In", "in", totals, rates),
      ...flowFacts("Out", "out", totals, rates),
      fact("Skew", vertex.skew === null ? "–" : `${vertex.skew.toFixed(1)} %`, skewWords(vertex.skew)),
      watermark(vertex)),
    h("div", { class: "charts" },
      lineChart(`${what === "rows" ? "Rows" : "Records"} ${way}`, picture.now, [{ values: history[`${what}_${way}`], class: "flow" }], history.time, rate, 1),
      lineChart("Busy", picture.now, [{ values: history.busy, class: "busy" }], history.time, percent, 1),
      lineChart("Held back", picture.now, [{ values: history.back_pressured, class: "held" }], history.time, percent, 1),
      lineChart("Event time behind", picture.now, [{ values: history.watermark_lag, class: "lag" }], history.time, duration)),
    vertex.operators.length > 1 && operators(vertex),
    subtasks(vertex, picture, view, change));
}

function fact(name, value, more = "") {
  return h("div", {}, h("dt", {}, name), h("dd", {}, value, more && h("small", {}, more)));
}

// Records that are batches of columns are told with their rows.
function flowFacts(title, way, totals, rates) {
  const records = totals[`records_${way}`], rows = totals[`rows_${way}`];
  const recordRate = rates[`records_${way}`], rowRate = rates[`rows_${way}`];
  const bytes = size(totals[`bytes_${way}`]);
  if (!rows) return [fact(title, `${count(records)} records`, `${rate(recordRate)} · ${bytes}`)];
  const [each, of] = rowRate && recordRate ? [rowRate / recordRate, "now"] : [rows / records, "so far"];
  return [
    fact(title, `${count(rows)} rows`, `${rate(rowRate)} · ${bytes}`),
    fact(`Batches ${way}`, count(records), `${rate(recordRate)} · ${count(Math.round(each))} rows each ${of}`),
  ];
}

function skewWords(skew) {
  if (skew === null) return "no records yet";
  return skew < 10 ? "even" : skew < 30 ? "uneven" : "very uneven";
}

function watermark({ watermark: { lowest, lag, subtask, known }, parallelism }) {
  if (lowest === null) return fact("Watermark", "–", "none yet");
  const behind = lag === null ? "" : `${duration(lag)} behind`;
  const who = parallelism > 1 ? ` · last: subtask ${subtask}` : "";
  const silent = known < parallelism ? ` · ${plural(parallelism - known, "subtask")} without` : "";
  return fact("Watermark", isTime(lowest) ? `${eventTime(lowest)}` : eventTime(lowest), `${behind}${who}${silent}`.replace(/^ · /, ""));
}

function operators(vertex) {
  const columns = [["records_in", "Records in"], ["records_out", "Records out"], ["rows_in", "Rows in"], ["rows_out", "Rows out"]];
  const shown = columns.filter(([key], place) => place < 2 || vertex.operators.some((operator) => operator[key] != null));
  return h("div", { class: "table-scroll" }, h("table", { class: "narrow" },
    h("caption", { class: "unseen" }, "Operators of the task"),
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Operator"), shown.map(([, title]) => h("th", { scope: "col", class: "number" }, title)))),
    h("tbody", {}, vertex.operators.map((operator) => h("tr", {},
      h("th", { scope: "row" }, operator.name),
      shown.map(([key]) => h("td", { class: "number" }, count(operator[key]))))))));
}

function subtasks(vertex, picture, view, change) {
  const { columns, rows, count: all } = vertex.subtasks;
  if (!rows.length) return h("p", { class: "empty" }, "Its subtasks come with the next picture.");
  const named = rows.map((row) => Object.fromEntries(columns.map((column, place) => [column, row[place]])));
  return [
    h("h3", {}, plural(all, "subtask"), rows.length < all && h("small", {}, `the ${count(rows.length)} that stand out most`)),
    named.length > 1 && subtaskMap(named),
    subtaskTable(named, vertex, view, change),
  ];
}
