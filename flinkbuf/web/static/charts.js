// Small charts in SVG. Each has words beside it for who cannot see it.

import { h, s } from "./dom.js";

const WIDTH = 260;
const HEIGHT = 56;

// A line over time: series [{values, class}], all of one unit; `top` is the least that the chart reaches up to, from 0.
// Without it, values that are all far from zero and close to each other fill the chart: else event time of long ago would
// be a flat line.
export function lineChart(title, now, series, times, format, top = 0) {
  const known = series.flatMap((each) => each.values).filter((value) => value !== null);
  const highest = Math.max(top, ...known);
  const least = known.length ? Math.min(...known) : 0;
  const isFar = !top && least > 0.9 * highest && least < highest;
  const lowest = isFar ? least - (highest - least) * 0.1 : Math.min(0, least);
  const last = series[0].values.length ? series[0].values[series[0].values.length - 1] : null;
  const span = Math.max(30_000, now - (times[0] ?? now));
  const point = (value, place) => {
    const x = WIDTH - ((now - times[place]) / span) * WIDTH;
    const y = HEIGHT - 2 - ((value - lowest) / (highest - lowest || 1)) * (HEIGHT - 6);
    return `${x.toFixed(1)} ${y.toFixed(1)}`;
  };
  const words = `${title}: ${format(last)} now, at most ${format(known.length ? Math.max(...known) : null)}`;
  return h("figure", { class: "chart" },
    h("figcaption", {}, h("span", {}, title), h("b", {}, format(last))),
    s("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", "aria-label": words },
      s("path", { class: "axis", d: `M0 ${HEIGHT - 1.5}H${WIDTH}` }),
      series.map(({ values, class: name }) => {
        const runs = connected(values).map((run) => run.map((place) => point(values[place], place)));
        return runs.map((run) => s("path", { class: `line ${name}`, d: `M${run.join("L")}` }));
      })));
}

// Places of values that follow each other without a gap.
function connected(values) {
  const runs = [];
  values.forEach((value, place) => {
    if (value === null) return;
    if (place > 0 && values[place - 1] !== null && runs.length) runs[runs.length - 1].push(place);
    else runs.push([place]);
  });
  return runs;
}

// How full something is: a bar with its words inside the same cell.
export function bar(used, whole, words) {
  const share = whole ? Math.min(1, used / whole) : 0;
  return h("span", { class: "bar-cell" },
    h("span", { class: `bar${share > 0.9 ? " is-full" : ""}` }, h("i", { style: `width:${(share * 100).toFixed(1)}%` })),
    h("span", {}, words));
}
