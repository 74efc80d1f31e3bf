// Numbers as people read them. Nothing here knows a picture.

export const NOTHING = "–";
const END_OF_TIME = 2 ** 62; // the watermark of one who has seen all; below -2^62: of one who has seen none
const isMissing = (value) => value === null || value === undefined || Number.isNaN(value);

export function count(value) {
  if (isMissing(value)) return NOTHING;
  return Math.round(value).toLocaleString("en");
}

// Three digits and a letter: 999, 1.2 k, 34.5 k, 678 k, 1.2 M.
export function short(value) {
  if (isMissing(value)) return NOTHING;
  if (Math.abs(value) < 10 && value !== Math.round(value)) return value.toFixed(1);
  const units = ["", " k", " M", " G", " T"];
  let unit = 0;
  while (Math.abs(value) >= 999.5 && unit < units.length - 1) {
    value /= 1000;
    unit += 1;
  }
  return (unit && Math.abs(value) < 99.95 ? value.toFixed(1) : Math.round(value)) + units[unit];
}

export const rate = (value) => (isMissing(value) ? NOTHING : `${short(value)}/s`);
export const percent = (ratio) => (isMissing(ratio) ? NOTHING : `${Math.round(ratio * 100)} %`);
export const plural = (number, one, many) => `${count(number)} ${number === 1 ? one : (many ?? one + "s")}`;

export function size(bytes) {
  if (isMissing(bytes)) return NOTHING;
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let unit = 0;
  while (bytes >= 1000 && unit < units.length - 1) {
    bytes /= 1024;
    unit += 1;
  }
  return `${unit && bytes < 99.95 ? bytes.toFixed(1) : Math.round(bytes)} ${units[unit]}`;
}

const SPANS = [
  ["year", 365.25 * 86_400_000],
  ["day", 86_400_000],
  ["h", 3_600_000],
  ["min", 60_000],
];

// One or two units: 38 ms, 4.2 s, 12 min 5 s, 3 h 20 min, 13.4 years.
export function duration(ms) {
  if (isMissing(ms)) return NOTHING;
  if (ms < 0) return `−${duration(-ms)}`;
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 9_950) return `${(ms / 1000).toFixed(1)} s`;
  if (ms < 59_500) return `${Math.round(ms / 1000)} s`;
  if (ms >= SPANS[0][1]) return `${(ms / SPANS[0][1]).toFixed(1)} years`;
  const [[name, span], lower] = largest(ms);
  const whole = Math.floor(ms / span);
  const rest = Math.floor((ms - whole * span) / (lower ? lower[1] : 1000));
  const first = name === "day" ? plural(whole, "day") : `${whole} ${name}`;
  return rest && whole < 10 ? `${first} ${rest} ${lower ? lower[0] : "s"}` : first;
}

function largest(ms) {
  const place = SPANS.findIndex(([, span]) => ms >= span);
  return place < 0 ? [["min", 60_000], null] : [SPANS[place], SPANS[place + 1] ?? null];
}

// Whole seconds, for what grows while one looks at it.
export const age = (ms) => (isMissing(ms) ? NOTHING : ms < 950 ? "now" : `${duration(Math.round(ms / 1000) * 1000).replace(".0 s", " s")} ago`);
export const lasting = (ms) => (ms < 60_000 ? `${Math.floor(Math.max(0, ms) / 1000)} s` : duration(ms));

export const isTime = (ms) => !isMissing(ms) && Math.abs(ms) < END_OF_TIME;

// Event time is shown in UTC: it means the same to all who look.
export function eventTime(ms) {
  if (isMissing(ms)) return NOTHING;
  if (ms >= END_OF_TIME) return "end";
  if (ms <= -END_OF_TIME) return NOTHING;
  const date = new Date(ms);
  return Number.isNaN(date.getTime()) ? count(ms) : date.toISOString().replace("T", " ").slice(0, 19);
}

// When something happened, on the clock of who looks.
export function clock(ms) {
  if (isMissing(ms) || ms <= 0) return NOTHING;
  return new Date(ms).toLocaleTimeString("en-GB");
}

export function dateAndClock(ms) {
  if (isMissing(ms) || ms <= 0) return NOTHING;
  return `${new Date(ms).toLocaleDateString("sv-SE")} ${clock(ms)}`;
}

// The first operator of a chain stands for all of it.
export const shortName = (name) => name.split(" -> ")[0];
export const endpoint = (path) => (path ? path.replace(/^.*\/\//, "") : NOTHING);
