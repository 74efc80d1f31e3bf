// A table that can be sorted by its columns: [{key, title, value, cell, isNumber, isDownFirst}]. The first column names
// a row.

import { h } from "./dom.js";

export function sorted(rows, columns, { column: key, isDown }) {
  const column = columns.find((each) => each.key === key);
  const places = new Map(rows.map((row, place) => [row, place]));
  return [...rows].sort((one, other) => {
    const [first, second] = [column.value(one), column.value(other)];
    const order = first < second ? -1 : first > second ? 1 : 0;
    return (isDown ? -order : order) || places.get(one) - places.get(other);
  });
}

export function sortableTable(attributes, caption, rows, columns, sorting, change) {
  return h("div", { class: "table-scroll" }, h("table", attributes,
    h("caption", { class: "unseen" }, caption),
    h("thead", {}, h("tr", {}, columns.map((each) => heading(each, sorting, change)))),
    h("tbody", {}, rows.map((row) => h("tr", { key: row.key }, columns.map((column, place) =>
      h(place ? "td" : "th", { class: column.isNumber ? "number" : null, scope: place ? null : "row" }, column.cell(row))))))));
}

function heading(column, { column: key, isDown }, change) {
  const isSorted = column.key === key;
  const next = { column: column.key, isDown: isSorted ? !isDown : column.isDownFirst !== false };
  return h("th", { scope: "col", class: column.isNumber ? "number" : null, "aria-sort": isSorted ? (isDown ? "descending" : "ascending") : "none" },
    h("button", { type: "button", class: "sort", onclick: () => change(next) }, column.title,
      h("span", { class: "arrow", "aria-hidden": "true" }, isSorted ? (isDown ? "↓" : "↑") : "")));
}
