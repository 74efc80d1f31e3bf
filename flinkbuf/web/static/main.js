// The page: asks for a picture every second, and draws it. Data flows one way: picture and view in, elements out.

import * as api from "./api.js";
import { checkpoints } from "./checkpoints.js";
import * as commands from "./commands.js";
import { draw, h } from "./dom.js";
import { failures } from "./failures.js";
import * as flames from "./flame.js";
import { age, dateAndClock, lasting } from "./format.js";
import { graph, legend } from "./graph.js";
import * as inspector from "./inspector.js";
import { jobs } from "./jobs.js";
import { managers } from "./managers.js";
import { task } from "./task.js";
import { busy, isOver } from "./standing.js";

const INTERVAL_MS = 1000;
const HIDDEN_MS = 30_000; // between two pictures of a page that nobody sees: its program waits for it at its end
const SILENCE_MS = 3500; // without an answer, until the page says so

const BEGINNING = { vertexId: null, sorting: null, listSorting: null, allRows: false, allCheckpoints: false, allJobs: false, search: "", zoom: 1 };

const state = {
  jobId: null, // of the address; null: the only or newest job
  picture: null,
  others: [], // all jobs that the server knows
  heard: 0, // when the last answer came, on this machine's clock
  error: null,
  isWhole: false, // the job's end is here, with all that it had: the program may go
  view: { ...BEGINNING },
  flame: { ...flames.closed },
  inspector: { ...inspector.closed },
  command: { ...commands.closed },
};
let ask = null;
let spoken = "";

// ---- drawing

function render() {
  const { picture, error } = state;
  if (!picture) {
    draw(document.getElementById("page"), waiting(error));
    return;
  }
  document.title = `${picture.name} · ${isLost() ? "connection lost" : picture.state.toLowerCase()}`;
  const vertex = chosen(picture);
  draw(document.getElementById("page"),
    head(picture),
    banner(picture),
    h("main", {},
      questions(picture),
      h("section", { class: "card", id: "tasks", tabindex: "-1", "aria-labelledby": "tasks-title" },
        h("header", { class: "card-head" }, h("h2", { id: "tasks-title" }, "Tasks"), legend()),
        graph(picture, { ...state.view, vertexId: vertex?.id }, choose)),
      vertex && task(vertex, picture, { ...state.view, ...openers(picture, vertex) }, look),
      checkpoints(picture, { ...state.view, open: openers(picture).openCheckpoint }, look),
      managers(picture, openers(picture)),
      failures(picture),
      accumulators(picture),
      jobs(picture, state.others, state.view, look)),
    foot(picture));
  dialogs(picture);
  speak(picture);
}

function waiting(error) {
  return h("div", { class: "waiting" }, error
    ? [h("h1", {}, error.status === 404 ? "No such job" : "Nothing to see yet"), h("p", {}, error.message), error.status === 401 && h("p", {}, "Open the page by the link that the program printed: it has the token.")]
    : h("p", {}, "Asking for the job …"));
}

function head(picture) {
  return h("header", { class: "page-head" },
    h("div", {},
      h("h1", {}, picture.name),
      h("p", { class: "aside" }, h("code", {}, picture.jid), ` · ${picture["job-type"].toLowerCase()} · since ${dateAndClock(picture["start-time"])}`, jobChoice(picture))),
    picture["can-command"] && !isOver(picture) && !isLost() && commands.buttons(picture, command));
}

// Nobody answers for a job that ran when it was last heard of.
function isLost() {
  return state.error !== null && !isOver(state.picture) && Date.now() - state.heard > SILENCE_MS;
}

function jobChoice(picture) {
  if (state.others.length < 2) return null;
  return [" · ", h("label", {}, h("span", { class: "unseen" }, "Job"), h("select", { id: "jobs", value: picture.jid, onchange: (event) => { window.location.hash = `#/job/${event.target.value}`; } },
    state.others.map((job) => h("option", { value: job.jid, key: job.jid }, `${job.name} (${job.state.toLowerCase()})`))))];
}

function banner(picture) {
  if (isOver(picture)) {
    return h("p", { class: picture.state === "FAILED" ? "banner is-bad-news" : "banner", role: "status", key: "over" }, endWords(picture), " ", h("small", {}, picture["is-archived"] ? "This is its last picture, out of the archive." : "This is its last picture."));
  }
  if (!isLost()) return null;
  return h("p", { class: "banner is-bad-news", role: "alert", key: "lost" }, h("b", {}, "Connection lost."), ` What you see is ${lasting(Date.now() - state.heard)} old. The program may have ended; the page keeps asking.`);
}

function endWords(picture) {
  if (picture.savepoint) return [h("b", {}, "Stopped with savepoint "), h("code", {}, picture.savepoint), ": execution.state-recovery.path begins from it."];
  if (picture.state === "FAILED" && picture.failure) return [h("b", {}, "Failed: "), picture.failure];
  return h("b", {}, `The job ${{ FINISHED: "has finished", FAILED: "has failed", CANCELED: "was canceled", SUSPENDED: "goes on elsewhere" }[picture.state]}.`);
}

const MARKS = { good: "✓", fair: "!", bad: "✕", quiet: "·" };
const LEVELS = { good: "good", fair: "worth a look", bad: "bad", quiet: "nothing to judge" };

// What was good when it was last heard of is not known to be so now.
function answersNow(picture) {
  if (!isLost()) return picture.answers;
  const [runs, ...rest] = picture.answers;
  const unknown = { ...runs, level: "bad", answer: "Not known", detail: `${lasting(Date.now() - state.heard)} ago: ${runs.answer}` };
  return [unknown, ...rest.map((each) => ({ ...each, level: each.level === "good" ? "quiet" : each.level }))];
}

function questions(picture) {
  return h("section", { class: "questions", "aria-label": "At a glance" }, answersNow(picture).map((each, place) =>
    h("article", { class: `question-card is-${each.level}`, "data-question": String(place + 1) },
      h("h2", {}, h("span", { class: "mark", "aria-hidden": "true" }, MARKS[each.level]), each.question, h("span", { class: "unseen" }, ` ${LEVELS[each.level]}:`)),
      h("p", { class: "answer", title: each.answer }, each.vertex && place === 1 ? h("button", { type: "button", class: "link", onclick: () => look({ vertexId: each.vertex }) }, each.answer) : each.answer),
      h("p", { class: "detail", title: each.detail }, each.detail))));
}

function accumulators(picture) {
  if (!picture.accumulators.length) return null;
  return h("section", { class: "card", id: "accumulators" }, h("header", { class: "card-head" }, h("h2", {}, "Accumulators")),
    h("table", { class: "narrow" }, h("thead", {}, h("tr", {}, ["Name", "Type", "Value"].map((name) => h("th", { scope: "col" }, name)))),
      h("tbody", {}, picture.accumulators.map((each) => h("tr", {}, h("th", { scope: "row" }, each.name), h("td", {}, each.type), h("td", { class: "wrap" }, each.value))))));
}

function foot(picture) {
  const silence = Date.now() - state.heard;
  return h("footer", { class: state.isWhole ? "is-whole" : null }, h("span", {}, isOver(picture) ? `last picture: ${dateAndClock(picture.now)}` : `picture of ${dateAndClock(picture.now)}`), state.error && h("span", {}, ` · last answer ${age(silence)}`));
}

function dialogs(picture) {
  const holder = document.getElementById("dialog");
  const vertex = picture.vertices.find((each) => each.id === state.flame.vertexId);
  const wanted = vertex ? flames.flameDialog(vertex, state.flame, flame) : state.inspector.kind ? inspector.inspectorDialog(state.inspector, inspect) : state.command.name ? commands.commandDialog(picture, state.command, command) : null;
  if (!wanted) holder.firstChild?.close(); // where the keyboard was, it is again
  draw(holder, wanted);
  const dialog = holder.firstChild;
  if (dialog && !dialog.open) dialog.showModal();
}

// Who listens instead of looking is told what changes, and only that.
function speak(picture) {
  const [runs, stuck] = answersNow(picture);
  const words = `${picture.state.toLowerCase()}; ${stuck.level === "good" || stuck.level === "quiet" ? "nothing is stuck" : `stuck at ${stuck.answer}`}${runs.level === "bad" ? `; ${runs.answer}` : ""}`;
  if (words !== spoken) {
    spoken = words;
    document.getElementById("spoken").textContent = words;
  }
}

// The task that was chosen; before that, the one that most likely wants a look.
function chosen(picture) {
  const known = picture.vertices.find((vertex) => vertex.id === state.view.vertexId);
  return known ?? null;
}

function firstChoice(picture) {
  const busiest = [...picture.vertices].sort((one, other) => busy(other) - busy(one))[0];
  const failed = picture.vertices.find((vertex) => vertex.status === "FAILED");
  return failed?.id ?? picture.answers[1].vertex ?? busiest?.id ?? null;
}

// ---- what changes

function look(changes) {
  const isOther = changes.vertexId !== undefined && changes.vertexId !== state.view.vertexId;
  Object.assign(state.view, changes);
  render();
  if (isOther) tick();
}

// What was chosen in the graph, or found by its search.
function choose({ isSought, ...changes }) {
  const { vertexId } = changes;
  look(vertexId === undefined ? changes : { ...changes, sorting: null, allRows: false });
  if (isSought) document.querySelector(`#tasks [data-vertex="${vertexId}"]`)?.scrollIntoView({ block: "nearest", inline: "center" });
}

// Who opens what is asked for when somebody wants to see it; nothing can be asked of an archive.
function openers(picture, vertex) {
  if (picture["is-archived"]) return { openFlame: () => openFlame(vertex.id) };
  const open = (kind, args) => inspect({ ...inspector.closed, kind, args: { picture, ...args } });
  return {
    openFlame: () => openFlame(vertex.id),
    openAttempts: (subtask, attempt) => open("attempts", { vertex, subtask, attempt }),
    openCheckpoint: (id) => open("checkpoint", { id, vertexId: null }),
    openProcess: (kind, manager) => open(kind, { manager }),
    openConfiguration: () => open("configuration", {}),
  };
}

async function inspect(changes) {
  Object.assign(state.inspector, changes);
  render();
  if (state.inspector.kind === null || !("args" in changes)) return;
  const { args } = state.inspector;
  const found = await inspector.load(state.inspector);
  if (state.inspector.args !== args) return; // another one is looked at by now
  Object.assign(state.inspector, found);
  render();
  inspector.showNewest();
}

function command(changes) {
  Object.assign(state.command, changes);
  render();
  if (state.command.name === null) tick();
}

async function flame(changes) {
  const before = { ...state.flame };
  Object.assign(state.flame, changes);
  render();
  const isOther = ["vertexId", "kind", "subtask", "seen"].some((name) => state.flame[name] !== before[name]);
  if (state.flame.vertexId && isOther) await sample();
}

const openFlame = (vertexId) => flame({ ...flames.closed, vertexId });

// Asks until there is a graph.
async function sample() {
  const asked = { ...state.flame };
  const isWanted = () => ["vertexId", "kind", "subtask", "seen"].every((name) => state.flame[name] === asked[name]);
  while (isWanted() && state.picture) {
    const found = await flames.look(state.picture.jid, asked);
    if (!isWanted()) return;
    Object.assign(state.flame, found);
    render();
    if (!flames.isWaiting(state.flame)) return;
    await new Promise((resolve) => { setTimeout(resolve, INTERVAL_MS / 2); });
  }
}

// ---- asking

async function tick() {
  if (state.isWhole && state.jobId !== null) return; // nothing more will come; without an id a newer job may
  try {
    const isEnd = state.picture !== null && isOver(state.picture);
    const picture = await ask(isEnd ? api.ALL : state.view.vertexId);
    state.heard = Date.now();
    state.error = null;
    if (picture) take(picture);
    state.isWhole = isEnd && isOver(state.picture);
    if (!isEnd && isOver(state.picture)) tick();
  } catch (error) {
    state.error = error;
    if (error.status === 404) state.picture = null; // the server knows the job no more
  }
  render();
}

function take(picture) {
  const isFirst = state.picture === null;
  // An answer that was asked for before another task was chosen has no rows of that one: the former ones stay until they come.
  for (const vertex of picture.vertices) {
    if (vertex.id === state.view.vertexId && !vertex.subtasks.rows.length && state.picture) {
      const former = state.picture.vertices.find((each) => each.id === vertex.id);
      if (former) Object.assign(vertex, { subtasks: former.subtasks, history: former.history });
    }
  }
  state.picture = picture;
  if (isFirst && state.view.vertexId === null) {
    state.view.vertexId = firstChoice(picture);
    tick();
  }
}

async function listJobs() {
  try {
    state.others = await api.jobs();
  } catch {
    state.others = [];
  }
  render();
}

function follow() {
  const found = /^#\/job\/([0-9a-f]{32})/.exec(window.location.hash);
  const jobId = found ? found[1] : null;
  if (ask !== null && jobId === state.jobId) return;
  Object.assign(state, { jobId, picture: null, error: null, isWhole: false });
  state.view = { ...BEGINNING };
  state.flame = { ...flames.closed };
  state.inspector = { ...inspector.closed };
  state.command = { ...commands.closed };
  ask = api.pictures(jobId);
  tick();
  listJobs();
}

api.takeToken();
window.addEventListener("hashchange", follow);
follow();
setInterval(() => { if (!document.hidden) tick(); }, INTERVAL_MS);
setInterval(() => { if (document.hidden) tick(); }, HIDDEN_MS);
setInterval(listJobs, 10 * INTERVAL_MS);
document.addEventListener("visibilitychange", () => { if (!document.hidden) tick(); });
