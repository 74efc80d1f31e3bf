// The processes that run tasks: who is there, who is full, who was lost.

import { bar } from "./charts.js";
import { h } from "./dom.js";
import { age, count, endpoint, percent, rate, size } from "./format.js";
import { isOver } from "./standing.js";

const NAMES = ["Task manager", "Heard", "Tasks", "In", "Out", "Processor", "Memory", "Managed memory", "Network buffers", "Credit", ""];
const NUMBERS = new Set(["Heard", "Tasks", "In", "Out", "Processor", "Credit"]);

export function managers(picture, openers) {
  const here = picture.taskmanagers;
  const lost = picture["lost-taskmanagers"];
  return h("section", { class: "card", id: "managers", "aria-labelledby": "managers-title" },
    h("header", { class: "card-head" }, h("h2", { id: "managers-title" }, "Task managers"),
      openers.openProcess && h("p", { class: "aside" }, "The program: ",
        look("log", "its log", () => openers.openProcess("log", null)), " · ",
        look("threads", "its threads", () => openers.openProcess("threads", null)), " · ",
        look("configuration", "the job's configuration", openers.openConfiguration))),
    here.length + lost.length === 0
      ? h("p", { class: "empty" }, "None is there yet.")
      : h("div", { class: "table-scroll" }, h("table", { id: "manager-table" },
          h("caption", { class: "unseen" }, "Task managers, and below them those that were lost"),
          h("thead", {}, h("tr", {}, NAMES.map((name) => h("th", { scope: "col", class: NUMBERS.has(name) ? "number" : null }, name)))),
          h("tbody", {}, here.map((each) => present(each, picture, openers)), lost.map((each) => gone(each, picture))))));
}

function name(each, note) {
  return h("th", { scope: "row" }, h("span", {}, each.id), h("small", {}, [each.host, each.path ? endpoint(each.path) : null, each.process_id ? `process ${each.process_id}` : null].filter(Boolean).join(" · ")), note);
}

const look = (kind, words, open) => h("button", { type: "button", class: "text", "aria-haspopup": "dialog", "data-look": kind, onclick: open }, words);

function present(each, picture, openers) {
  const { metrics } = each;
  const words = isOver(picture) ? "" : each.illness;
  return h("tr", { class: words ? "is-ill" : null },
    name(each, words && h("small", { class: "is-fair" }, words)),
    number(isOver(picture) ? "–" : age(each["heartbeat-age"])),
    number(count(each.tasks)),
    number(rate(each.records_in)),
    number(rate(each.records_out)),
    number(percent(metrics.cpu_share)),
    h("td", {}, memory(metrics)),
    h("td", {}, share(metrics.managed_memory_used, metrics.managed_memory_total, size)),
    h("td", {}, share(metrics.usedMemorySegments, metrics.totalMemorySegments, count)),
    number(count(each.credit)),
    h("td", {}, openers.openProcess && !isOver(picture) && [look("log", "log", () => openers.openProcess("log", each.id)), " · ", look("threads", "threads", () => openers.openProcess("threads", each.id))]));
}

const number = (text) => h("td", { class: "number" }, text);

function share(used, whole, format) {
  if (!whole) return "–";
  return bar(used ?? 0, whole, `${format(used ?? 0)} of ${format(whole)}`);
}

function memory({ resident_bytes: used, memory_limit_bytes: limit }) {
  if (!used) return "–";
  return limit ? bar(used, limit, `${size(used)} of ${size(limit)}`) : size(used);
}

function gone(each, picture) {
  return h("tr", { class: "is-lost" }, name(each, null), h("td", { colspan: String(NAMES.length - 1), class: "is-bad" }, `lost ${age(picture.now - each["lost-time"])}`));
}
