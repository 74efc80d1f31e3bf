// All jobs of the program, or of an archive: what became of each, and the way to it.

import { h } from "./dom.js";
import { count, dateAndClock, lasting, plural } from "./format.js";

const FIRST_ROWS = 20;

export function jobs(picture, others, view, change) {
  if (others.length < 2) return null;
  const newestFirst = [...others].sort((one, other) => other["start-time"] - one["start-time"]);
  const shown = view.allJobs ? newestFirst : newestFirst.slice(0, FIRST_ROWS);
  return h("section", { class: "card", id: "all-jobs", "aria-labelledby": "all-jobs-title" },
    h("header", { class: "card-head" }, h("h2", { id: "all-jobs-title" }, picture["is-archived"] ? "Jobs of this archive" : "Jobs of this program"), h("p", { class: "aside" }, plural(others.length, "job"))),
    h("div", { class: "table-scroll" }, h("table", {},
      h("thead", {}, h("tr", {}, ["Job", "State", "Begun", "Lasted", "Tasks"].map((name, place) => h("th", { scope: "col", class: place > 1 ? "number" : null }, name)))),
      h("tbody", {}, shown.map((job) => row(job, job.jid === picture.jid))))),
    others.length > FIRST_ROWS && h("button", { type: "button", class: "quiet more", onclick: () => change({ allJobs: !view.allJobs }) }, view.allJobs ? `Show the last ${FIRST_ROWS}` : `Show all ${count(others.length)}`));
}

function row(job, isHere) {
  const state = job.state.toLowerCase();
  return h("tr", { key: job.jid },
    h("th", { scope: "row" }, isHere ? job.name : h("a", { href: `#/job/${job.jid}` }, job.name), isHere && h("small", {}, "this one")),
    h("td", {}, h("span", { class: `state is-${state}` }, state)),
    h("td", { class: "number" }, dateAndClock(job["start-time"])),
    h("td", { class: "number" }, job.duration >= 0 ? lasting(job.duration) : "–"),
    h("td", { class: "number" }, count(job.tasks?.total)));
}
