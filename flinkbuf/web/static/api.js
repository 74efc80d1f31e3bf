// What the page asks of the server. The token comes with the link, stays in this tab, and leaves the address bar.

const TOKEN = "flinkbuf-token";

export class Refusal extends Error {
  constructor(status, text) {
    super(text);
    this.status = status;
  }
}

export function takeToken() {
  const address = new URL(window.location.href);
  const token = address.searchParams.get("token");
  if (!token) return;
  sessionStorage.setItem(TOKEN, token);
  address.searchParams.delete("token");
  window.history.replaceState(null, "", address);
}

// What would command a terminal, or turn the direction of writing, is shown as what it is.
const CONTROL = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;
const shown = (key, value) => (typeof value === "string" ? value.replace(CONTROL, (sign) => `\\u${sign.charCodeAt(0).toString(16).padStart(4, "0")}`) : value);
const read = async (answer) => JSON.parse(await answer.text(), shown);

async function ask(path, options = {}) {
  const headers = { Accept: "application/json", ...options.headers };
  const token = sessionStorage.getItem(TOKEN);
  if (token) headers.Authorization = `Bearer ${token}`;
  const answer = await fetch(path, { cache: "no-store", ...options, headers, signal: AbortSignal.timeout(10_000) })
    .catch(() => { throw new Refusal(0, "The program does not answer: it may have ended, or cannot be reached from here."); });
  if (answer.ok || answer.status === 304) return answer;
  const body = await read(answer).catch(() => ({}));
  throw new Refusal(answer.status, (body.errors ?? [`the server answered ${answer.status}`]).join("\n"));
}

async function send(method, path, body) {
  const headers = { "Content-Type": "application/json" };
  const answer = await ask(path, { method, headers, body: JSON.stringify(body ?? {}) });
  return read(answer).catch(() => ({}));
}

const json = async (path) => read(await ask(path));

export const jobs = async () => (await json("jobs/overview")).jobs;

export const ALL = "*"; // instead of a task's id: the subtasks of all, as many as anybody will look at

// The picture, or null while it is the one that is known already.
export function pictures(jobId) {
  let tag = null;
  return async (vertexId) => {
    const path = (jobId ? `jobs/${jobId}/picture` : "picture") + (vertexId === ALL ? "?subtasks=200" : `?vertex=${vertexId ?? "none"}`);
    const answer = await ask(path, { headers: tag?.path === path ? { "If-None-Match": tag.value } : {} });
    if (answer.status === 304) return null;
    const value = answer.headers.get("ETag");
    tag = value ? { path, value } : null;
    return read(answer);
  };
}

export const flameGraph = async (jobId, vertexId, type, subtask) => {
  const of = subtask === null ? "" : `&subtaskindex=${subtask}`;
  return json(`jobs/${jobId}/vertices/${vertexId}/flamegraph?type=${type}${of}`);
};

const of = (manager) => (manager === null ? "jobmanager" : `taskmanagers/${encodeURIComponent(manager)}`); // null: the program

export const log = async (manager) => (await ask(`${of(manager)}/log`, { headers: { Accept: "text/plain" } })).text();
export const threads = async (manager) => (await json(`${of(manager)}/thread-dump`)).threadInfos;
export const configuration = (jobId) => json(`jobs/${jobId}/jobmanager/config`);
export const checkpoint = (jobId, id) => json(`jobs/${jobId}/checkpoints/details/${id}`);
export const checkpointSubtasks = (jobId, id, vertexId) => json(`jobs/${jobId}/checkpoints/details/${id}/subtasks/${vertexId}`);
export const attempt = (jobId, vertexId, subtask, number) => json(`jobs/${jobId}/vertices/${vertexId}/subtasks/${subtask}/attempts/${number}`);

export const cancel = (jobId) => send("PATCH", `jobs/${jobId}?mode=cancel`);
export const savepoint = (jobId, directory) =>
  send("POST", `jobs/${jobId}/savepoints`, { "target-directory": directory, "cancel-job": false });
export const stop = (jobId, directory) =>
  send("POST", `jobs/${jobId}/stop`, { targetDirectory: directory, drain: false });
export const savepointStatus = (jobId, request) => json(`jobs/${jobId}/savepoints/${request}`);
