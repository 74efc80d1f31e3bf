// Checkpoints as a time line: a column each, as high as it took, the part that waited for alignment darker.

import { h, s } from "./dom.js";
import { clock, count, dateAndClock, duration, plural, size } from "./format.js";
import { isOver, isPeriodic } from "./standing.js";

const HEIGHT = 96;
const FIRST_ROWS = 8;

export function checkpoints(picture, view, change) {
  const { counts, config, running } = picture.checkpoints;
  const history = picture.checkpoints.history.filter((each) => each.status !== "IN_PROGRESS"); // those stand above
  const isAsked = isPeriodic(picture.checkpoints);
  return h("section", { class: "card", id: "checkpoints", "aria-labelledby": "checkpoints-title" },
    h("header", { class: "card-head" },
      h("h2", { id: "checkpoints-title" }, "Checkpoints"),
      h("p", { class: "aside" }, [
        isAsked ? `every ${duration(config.interval)}, ${(config.mode ?? "").replaceAll("_", " ")}` : "only when asked for",
        counts.total ? `${count(counts.completed)} completed` : null,
        counts.failed ? `${count(counts.failed)} failed` : null,
        counts.restored ? `restored ${plural(counts.restored, "time")}` : null,
      ].filter(Boolean).join(" · "))),
    restoredFrom(picture.checkpoints.latest.restored),
    running.map((each) => open(each, picture)),
    history.length ? [timeLine(history, picture), table(history, view, change)] : h("p", { class: "empty" }, emptyWords(picture, isAsked)));
}

function restoredFrom(restored) {
  if (!restored) return null;
  const what = `${restored.is_savepoint ? "savepoint" : "checkpoint"} ${restored.id}`;
  return h("p", { class: "restored" }, `Restored from ${what}, ${dateAndClock(restored.restore_timestamp)}`, restored.external_path && [": ", h("code", {}, restored.external_path)]);
}

function emptyWords(picture, isAsked) {
  if (isOver(picture)) return "The job took none.";
  if (isAsked) return "None has ended yet.";
  if (picture["job-type"] === "BATCH") return "A batch job takes none: what is lost is made once more.";
  return "The job takes none by itself; env.enable_checkpointing(…) has it take some. A savepoint can be asked for above.";
}

function open(each, picture) {
  const missing = each["missing-count"] ? ` · missing: ${each.missing.slice(0, 3).join(", ")}${each["missing-count"] > 3 ? ` and ${count(each["missing-count"] - 3)} more` : ""}` : "";
  return h("p", { class: "open-checkpoint" },
    h("progress", { max: each.num_subtasks, value: each.num_acknowledged_subtasks, "aria-label": `checkpoint ${each.id}` }),
    h("span", {}, h("b", {}, `${each.is_savepoint ? "Savepoint" : "Checkpoint"} ${each.id}`), ` since ${duration(picture.now - each.trigger_timestamp)}: ${count(each.num_acknowledged_subtasks)} of ${count(each.num_subtasks)} subtasks${missing}`));
}

function timeLine(history, picture) {
  const shown = [...history].reverse();
  const longest = Math.max(1, ...shown.map((each) => each.end_to_end_duration));
  const largest = Math.max(1, ...shown.map((each) => each.state_size));
  const step = Math.max(10, Math.min(30, Math.floor(1100 / shown.length)));
  const width = shown.length * step;
  const done = shown.filter((each) => each.status === "COMPLETED");
  const words = `${plural(shown.length, "checkpoint")}, oldest first; the longest took ${duration(longest)}, the largest is ${size(largest)}`;
  return h("figure", { class: "time-line" },
    h("div", { class: "graph-scroll" },
      s("svg", { width, height: HEIGHT + 34, viewBox: `0 0 ${width} ${HEIGHT + 34}`, role: "img", "aria-label": words },
        s("path", { class: "axis", d: `M0 ${HEIGHT + 0.5}H${width}` }),
        shown.map((each, place) => column(each, place * step, step, longest, largest)))),
    h("figcaption", {},
      h("span", {}, h("i", { class: "swatch duration" }), `duration, at most ${duration(longest)}`),
      h("span", {}, h("i", { class: "swatch alignment" }), "alignment"),
      h("span", {}, h("i", { class: "swatch size" }), `size, at most ${size(done.length ? largest : null)}`),
      h("span", { class: "span" }, `${clock(shown[0].trigger_timestamp)} to ${clock(shown[shown.length - 1].trigger_timestamp)}`)));
}

function column(each, x, step, longest, largest) {
  const isFailed = each.status === "FAILED";
  const height = Math.max(3, (each.end_to_end_duration / longest) * (HEIGHT - 8));
  const waited = Math.min(height, (each.alignment / longest) * (HEIGHT - 8));
  const wide = step - 4;
  const kind = each.is_savepoint ? "savepoint" : "checkpoint";
  const title = `${kind} ${each.id}, ${clock(each.trigger_timestamp)}: ${isFailed ? `failed, ${each.failure_message ?? ""}` : `${duration(each.end_to_end_duration)}, ${size(each.state_size)}, alignment ${duration(each.alignment)}`}`;
  return s("g", { class: isFailed ? "column is-failed" : `column is-${kind}` },
    s("title", {}, title),
    s("rect", { class: "hit", x, y: 0, width: step, height: HEIGHT + 34 }),
    s("rect", { class: "duration", x: x + 2, y: HEIGHT - height, width: wide, height, rx: 2 }),
    waited > 0 && s("rect", { class: "alignment", x: x + 2, y: HEIGHT - waited, width: wide, height: waited, rx: 2 }),
    s("rect", { class: "size", x: x + 2, y: HEIGHT + 6, width: wide, height: isFailed ? 0 : Math.max(2, (each.state_size / largest) * 26), rx: 1 }));
}

function table(history, view, change) {
  const shown = view.allCheckpoints ? history : history.slice(0, FIRST_ROWS);
  const names = ["Checkpoint", "Begun", "Duration", "Size", "Alignment", "Sync", "Async", "Last to answer", ""];
  return [
    h("div", { class: "table-scroll" }, h("table", { id: "checkpoint-table" },
      h("caption", { class: "unseen" }, "Checkpoints, newest first"),
      h("thead", {}, h("tr", {}, names.map((name, place) => h("th", { scope: "col", class: place > 0 && place < 7 ? "number" : null }, name)))),
      h("tbody", {}, shown.map((each) => row(each, view.open))))),
    history.length > FIRST_ROWS && h("button", { type: "button", class: "quiet more", onclick: () => change({ allCheckpoints: !view.allCheckpoints }) },
      view.allCheckpoints ? `Show the last ${FIRST_ROWS}` : `Show all ${count(history.length)}`),
  ];
}

const nameOf = (each) => (each.is_savepoint ? `savepoint ${each.id}` : String(each.id));

function row(each, openIt) {
  const isFailed = each.status === "FAILED";
  const cells = isFailed ? ["–", "–", "–", "–"] : [size(each.state_size), duration(each.alignment), duration(each.sync), duration(each.async)];
  return h("tr", {},
    h("th", { scope: "row" }, openIt ? h("button", { type: "button", class: "text", "aria-haspopup": "dialog", onclick: () => openIt(each.id) }, nameOf(each)) : nameOf(each)),
    h("td", { class: "number" }, clock(each.trigger_timestamp)),
    h("td", { class: "number" }, duration(each.end_to_end_duration)),
    cells.map((cell) => h("td", { class: "number" }, cell)),
    h("td", {}, each.slowest ?? "–"),
    h("td", { class: "wrap" }, isFailed ? h("span", { class: "is-bad" }, `failed: ${each.failure_message ?? ""}`) : each.is_savepoint ? h("code", {}, each.external_path ?? "") : ""));
}
