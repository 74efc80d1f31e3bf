// What is asked for when somebody wants to see it: logs, threads, configuration, one checkpoint, attempts of a subtask.
// Each becomes lines of text, or tables; both can be searched.

import * as api from "./api.js";
import { h } from "./dom.js";
import { clock, count, dateAndClock, duration, plural, shortName, size } from "./format.js";

const MOST_LINES = 5_000; // that are drawn, the newest
const FORMER_ATTEMPTS = 16; // that a subtask keeps

export const closed = { kind: null, args: null, query: "", content: null, error: null };

// Returns {content, error}: content is {lines} or {tables: [{title, columns, rows}]}.
export async function load({ kind, args }) {
  try {
    return { content: await LOADERS[kind](args), error: null };
  } catch (error) {
    return { error: error.message };
  }
}

const TITLES = {
  log: ({ manager }) => `Log of ${manager ?? "the program"}`,
  threads: ({ manager }) => `Threads of ${manager ?? "the program"}`,
  configuration: () => "Configuration of the job",
  checkpoint: ({ id }) => `Checkpoint ${id}`,
  attempts: ({ vertex, subtask }) => `Attempts of ${shortName(vertex.name)}, subtask ${subtask}`,
};

const LOADERS = {
  log: async ({ manager }) => ({ lines: linesOf(await api.log(manager)), empty: "Nothing was logged. What is below WARNING is kept where the program lets it be logged: logging.getLogger().setLevel(\"INFO\")." }),
  threads: async ({ manager }) => ({ lines: (await api.threads(manager)).map((each) => each.stringifiedThreadInfo), isInParts: true }),
  configuration: async ({ picture }) => ({ tables: [{ columns: ["Key", "Value"], rows: (await api.configuration(picture.jid)).map(({ key, value }) => [key, value]) }], empty: "The program has set nothing." }),
  checkpoint: checkpointTables,
  attempts: attemptTable,
};

function linesOf(text) {
  const lines = text.split("\n");
  if (lines[lines.length - 1] === "") lines.pop();
  return lines;
}

async function checkpointTables({ picture, id, vertexId }) {
  const found = await api.checkpoint(picture.jid, id);
  const names = new Map(picture.vertices.map((vertex) => [vertex.id, vertex.name]));
  const tables = [{
    title: `${found.is_savepoint ? "Savepoint" : "Checkpoint"}, ${found.status.toLowerCase().replaceAll("_", " ")}${found.external_path ? `: ${found.external_path}` : ""}`,
    columns: ["Task", "Acknowledged", "Duration", "New", "Whole", "Persisted in flight"],
    rows: Object.entries(found.tasks).map(([vertex, each]) => [
      { text: names.get(vertex) ?? vertex, args: { picture, id, vertexId: vertex }, isChosen: vertex === vertexId },
      `${count(each.num_acknowledged_subtasks)} of ${count(each.num_subtasks)}`, duration(each.end_to_end_duration), size(each.checkpointed_size), size(each.state_size), size(each.persisted_data)]),
  }];
  if (vertexId === null) return { tables };
  const { subtasks } = await api.checkpointSubtasks(picture.jid, id, vertexId);
  tables.push({
    title: `Subtasks of ${names.get(vertexId) ?? vertexId}`,
    columns: ["Subtask", "Acknowledged", "Duration", "New", "Whole", "Sync", "Async", "Alignment", "Start delay"],
    rows: subtasks.map((each) => [String(each.index), ...(each.checkpoint
      ? [clock(each.ack_timestamp), duration(each.end_to_end_duration), size(each.checkpointed_size), size(each.state_size), duration(each.checkpoint.sync), duration(each.checkpoint.async), duration(each.alignment.duration), duration(each.start_delay)]
      : ["not heard of", ..."–".repeat(7)])]),
  });
  return { tables };
}

async function attemptTable({ picture, vertex, subtask, attempt }) {
  const first = Math.max(0, attempt - FORMER_ATTEMPTS);
  const asked = Array.from({ length: attempt + 1 - first }, (_, place) => api.attempt(picture.jid, vertex.id, subtask, first + place).catch((error) => {
    if (error.status === 404) return null; // forgotten
    throw error;
  }));
  const found = (await Promise.all(asked)).filter((each) => each !== null).reverse();
  return { tables: [{
    columns: ["Attempt", "State", "Ran on", "Begun", "Lasted", "Records in", "Records out", "Failed with"],
    rows: found.map((each) => [String(each.attempt + 1), each.status.toLowerCase(), `${each["taskmanager-id"]} · ${each.host}`, dateAndClock(each["start-time"]), duration(each.duration < 0 ? null : each.duration), count(each.metrics["read-records"]), count(each.metrics["write-records"]), each.failure ?? ""]),
  }] };
}

// ---- drawing

export function inspectorDialog(state, change) {
  const { kind, args, query, content, error } = state;
  return h("dialog", { class: "inspector", "aria-labelledby": "inspector-title", onclose: () => change({ ...closed }) },
    h("header", { class: "card-head" },
      h("h2", { id: "inspector-title" }, TITLES[kind](args)),
      h("span", { class: "commands" },
        h("button", { type: "button", class: "quiet", onclick: () => change({ args: { ...args } }) }, "Look again"),
        h("button", { type: "button", class: "quiet", onclick: () => change({ ...closed }) }, "Close"))),
    h("div", { class: "tools" },
      h("input", { type: "search", placeholder: "Search", "aria-label": "Search in it", autocomplete: "off", spellcheck: "false", value: query, oninput: (event) => change({ query: event.target.value }) }),
      content && h("span", { class: "aside", role: "status" }, countWords(content, query))),
    error && h("p", { class: "is-bad", role: "alert" }, error),
    content ? body(content, query, change) : !error && h("p", { class: "empty", role: "status" }, "Asking …"));
}

function body(content, query, change) {
  const isEmpty = content.lines ? !content.lines.length : content.tables.every((each) => !each.rows.length);
  if (isEmpty) return h("p", { class: "empty" }, content.empty ?? "There is nothing.");
  if (content.lines) return h("pre", { class: "lines", tabindex: "0" }, textOf(content, query));
  return content.tables.map((each) => table(each, query, change));
}

const textOfCell = (cell) => cell.text ?? cell;
const wanted = (query) => query.trim().toLowerCase();
const fits = (query) => (text) => text.toLowerCase().includes(query);
const rowsOf = ({ rows }, query) => (query ? rows.filter((row) => row.some((cell) => fits(query)(textOfCell(cell)))) : rows);

// Made once for each search, not with each picture.
let last = { content: null, query: null, text: "", count: 0 };

function searched(content, query) {
  if (last.content !== content || last.query !== query) {
    const found = query ? content.lines.filter(fits(query)) : content.lines;
    last = { content, query, count: found.length, text: found.slice(-MOST_LINES).join(content.isInParts ? "\n\n" : "\n") };
  }
  return last;
}

const textOf = (content, query) => searched(content, wanted(query)).text;

function countWords(content, query) {
  const of = (found, all, one) => (query.trim() ? `${count(found)} of ${plural(all, one)}` : plural(all, one));
  if (!content.lines) {
    const sum = (rows) => content.tables.reduce((whole, each) => whole + rows(each), 0);
    return of(sum((each) => rowsOf(each, wanted(query)).length), sum((each) => each.rows.length), "row");
  }
  const found = searched(content, wanted(query)).count;
  return of(found, content.lines.length, content.isInParts ? "thread" : "line") + (found > MOST_LINES ? `, the last ${count(MOST_LINES)} shown` : "");
}

function table({ title, columns, rows }, query, change) {
  return [
    title && h("h3", {}, title),
    h("div", { class: "table-scroll" }, h("table", {},
      h("thead", {}, h("tr", {}, columns.map((name) => h("th", { scope: "col" }, name)))),
      h("tbody", {}, rowsOf({ rows }, wanted(query)).map((row) => h("tr", {}, row.map((cell, place) => h(place ? "td" : "th", { class: "wrap", scope: place ? null : "row" }, drawn(cell, change)))))))),
  ];
}

function drawn(cell, change) {
  if (cell.args === undefined) return cell;
  return h("button", { type: "button", class: "text", "aria-pressed": String(cell.isChosen), onclick: () => change({ args: cell.args }) }, cell.text);
}

// A log is read from its end.
export function showNewest() {
  const lines = document.querySelector("dialog.inspector pre");
  if (lines) lines.scrollTop = lines.scrollHeight;
}
