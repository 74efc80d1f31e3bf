// How the parts of a picture stand: small questions that several drawings ask.

const NEVER_MS = 2 ** 53; // Flink's interval of a job without checkpoints is the largest long
const ENDED = new Set(["FINISHED", "FAILED", "CANCELED", "SUSPENDED"]);

export const isOver = (picture) => ENDED.has(picture.state);
export const heldBack = (vertex) => vertex.most_held_back?.ratio ?? 0;
export const busy = (vertex) => vertex.busiest?.ratio ?? 0;
export const isPeriodic = (checkpoints) => checkpoints.config.interval > 0 && checkpoints.config.interval < NEVER_MS;
