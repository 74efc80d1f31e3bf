// What failed: the first cause whole, with what it took down; those before and after it folded below.

import { h } from "./dom.js";
import { age, clock, count, dateAndClock, plural } from "./format.js";

export function failures(picture) {
  const { exceptionHistory } = picture.exceptions;
  const entries = exceptionHistory.entries;
  return h("section", { class: "card", id: "failures", "aria-labelledby": "failures-title" },
    h("header", { class: "card-head" },
      h("h2", { id: "failures-title" }, "Failures"),
      entries.length > 0 && h("p", { class: "aside" }, exceptionHistory.truncated ? `the last ${count(entries.length)}` : plural(entries.length, "failure"))),
    entries.length ? [failure(entries[0], picture), earlier(entries.slice(1))] : h("p", { class: "empty" }, "None so far."));
}

// What happened, in one line: the type and the message, which archives of older versions lack.
function headline(entry) {
  const [type, message] = [entry.exceptionName.split(".").pop(), (entry.message ?? "").trim().split("\n")[0]];
  return message ? `${type}: ${message.slice(0, 300)}` : type;
}

function failure(entry, picture) {
  return h("article", { class: "failure" },
    h("h3", { class: "is-bad" }, headline(entry), h("small", {}, `${dateAndClock(entry.timestamp)} · ${age(picture.now - entry.timestamp)}`)),
    h("p", {}, placeOf(entry)),
    h("p", {}, h("b", {}, "What it took down: "), tookDown(entry)),
    trace(entry.stacktrace, "The exception"),
    (entry.concurrentExceptions ?? []).length > 0 && h("details", {},
      h("summary", {}, `${plural(entry.concurrentExceptions.length, "failure")} at the same time`),
      entry.concurrentExceptions.map((each) => h("div", {}, h("p", {}, h("b", {}, headline(each)), " ", placeOf(each)), trace(each.stacktrace)))));
}

// A traceback from the program's own frames on; that it came through flinkbuf to them is known.
function trace(text, label = null) {
  const own = ownFrames(text);
  return [
    h("pre", { tabindex: "0", "aria-label": label }, own),
    own !== text && h("details", {}, h("summary", {}, "with flinkbuf's frames"), h("pre", { tabindex: "0" }, text)),
  ];
}

const OURS = /^ {2}File ".*[\\/]flinkbuf[\\/].*", line|^ {2}File ".*[\\/]threading\.py", line/;

function ownFrames(text) {
  let isLeading = false; // among the first frames of a traceback, which are ours
  let isLeft = false; // this frame is
  const kept = text.split("\n").filter((line) => {
    if (line.startsWith("Traceback ")) [isLeading, isLeft] = [true, false];
    else if (line.startsWith('  File "')) isLeft = isLeading = isLeading && OURS.test(line);
    else if (!line.startsWith("    ")) isLeft = isLeading = false;
    return !isLeft;
  });
  return kept.some((line) => line.startsWith('  File "')) ? kept.join("\n") : text; // else all of it is ours
}

function placeOf(entry) {
  const parts = [entry.taskName ? ["in ", h("b", {}, entry.taskName)] : "in no task: the job as a whole failed"];
  if (entry.taskManagerId) parts.push(` on ${entry.taskManagerId}`);
  if (entry.endpoint) parts.push(` (${entry.endpoint})`);
  return parts;
}

function tookDown(entry) {
  const { count: number, tasks } = entry.restarted ?? { count: 0, tasks: [] };
  if (!number) return "nothing was started again.";
  const rest = number - tasks.length;
  return `${plural(number, "subtask")} began again: ${tasks.join(", ")}${rest > 0 ? ` and ${count(rest)} more` : ""}.`;
}

function earlier(entries) {
  return entries.map((entry) => h("details", { class: "failure", key: `${entry.timestamp}` },
    h("summary", {}, h("b", {}, headline(entry)), ` ${clock(entry.timestamp)} `, placeOf(entry)),
    h("p", {}, tookDown(entry)),
    trace(entry.stacktrace)));
}
