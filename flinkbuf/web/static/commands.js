// What changes something: savepoint, stop, cancel. Each is asked for once more before it is done.

import * as api from "./api.js";
import { h } from "./dom.js";
import { isOver } from "./standing.js";

const POLL_MS = 400;
const QUESTIONS = {
  savepoint: { title: "Take a savepoint?", text: "The job goes on. Leave the directory empty for the configured one.", act: "Take savepoint", hasPath: true },
  stop: { title: "Stop with a savepoint?", text: "The job ends as soon as the savepoint is taken, and can go on from it later.", act: "Stop job", hasPath: true },
  cancel: { title: "Cancel the job?", text: "It ends at once and takes no savepoint.", act: "Cancel job", hasPath: false },
};

export const closed = { name: null, isBusy: false, error: null, done: null };

export function buttons(picture, change) {
  return h("div", { class: "commands" }, Object.entries({ savepoint: "Savepoint", stop: "Stop", cancel: "Cancel" }).map(([name, title]) =>
    h("button", { type: "button", class: "quiet", "aria-haspopup": "dialog", id: `do-${name}`, onclick: () => change({ ...closed, name }) }, title)));
}

export function commandDialog(picture, command, change) {
  const question = QUESTIONS[command.name];
  const done = command.done ?? (command.name === "stop" && isOver(picture) ? picture.savepoint : null); // the program may be gone
  const submit = async (event) => {
    event.preventDefault();
    const directory = event.target.elements.directory?.value.trim() || null;
    change({ isBusy: true, error: null });
    try {
      const done = await perform(command.name, picture.jid, directory);
      change(done ? { isBusy: false, done } : { ...closed });
    } catch (error) {
      change({ isBusy: false, error: error.status === 401 ? "This needs the token of the job's link: open the page by the link that the program printed." : error.message });
    }
  };
  return h("dialog", { class: "question", "aria-labelledby": "question-title", onclose: () => change({ ...closed }) },
    h("form", { onsubmit: submit },
      h("h2", { id: "question-title" }, done ? "Done" : question.title),
      h("p", {}, done ? ["The savepoint is at ", h("code", {}, done)] : question.text),
      question.hasPath && !done && h("label", {}, "Directory", h("input", { name: "directory", type: "text", autocomplete: "off", spellcheck: "false", disabled: command.isBusy })),
      command.error && !done && h("p", { class: "is-bad", role: "alert" }, command.error),
      h("div", { class: "commands" },
        h("button", { type: "button", class: "quiet", onclick: () => change({ ...closed }) }, done ? "Close" : "Leave it"),
        !done && h("button", { type: "submit", class: command.name === "cancel" ? "strong danger" : "strong", disabled: command.isBusy }, command.isBusy ? "Waiting …" : question.act))));
}

// Returns the path of the savepoint, if one was asked for.
async function perform(name, jobId, directory) {
  if (name === "cancel") {
    await api.cancel(jobId);
    return null;
  }
  const { "request-id": request } = await (name === "stop" ? api.stop : api.savepoint)(jobId, directory);
  for (;;) {
    const { status, operation } = await api.savepointStatus(jobId, request);
    if (status.id === "COMPLETED") {
      if (operation["failure-cause"]) throw new Error(operation["failure-cause"]["stack-trace"] ?? operation["failure-cause"].class);
      return operation.location;
    }
    await new Promise((resolve) => { setTimeout(resolve, POLL_MS); });
  }
}
