// Where the boxes and edges of a graph lie: layers from left to right, few crossings, no edge behind a box. Pure.

export const BOX = { width: 232, height: 128, across: 88, below: 28 }; // and the gaps between boxes
const BEND_HEIGHT = 10; // of the place that an edge takes in a layer which it passes through
const ROUNDS = 8;

// {width, height, boxes: Map id -> {x, y}, paths: [{edge, d, x, y}]}; x and y of a path: where its words go.
export function layout(vertices, edges) {
  const depth = depths(vertices, edges);
  const { layers, hops, heights } = withBends(vertices, edges, depth);
  order(layers, hops);
  const places = new Map();
  const tall = layers.map((layer) => layer.reduce((sum, id) => sum + heights(id) + BOX.below, -BOX.below));
  const height = Math.max(BOX.height, ...tall);
  layers.forEach((layer, column) => {
    let y = (height - tall[column]) / 2;
    for (const id of layer) {
      places.set(id, { x: column * (BOX.width + BOX.across), y, height: heights(id) });
      y += heights(id) + BOX.below;
    }
  });
  const width = Math.max(1, layers.length) * (BOX.width + BOX.across) - BOX.across;
  const paths = edges.map((edge, number) => path(edge, number, edges, depth, places));
  return { width, height, boxes: new Map(vertices.map(({ id }) => [id, places.get(id)])), paths };
}

// Each vertex one layer behind the last of those it reads from.
function depths(vertices, edges) {
  const depth = new Map(vertices.map((vertex) => [vertex.id, 0]));
  for (let round = 0; round < vertices.length; round += 1) {
    for (const { source, target } of edges) {
      const behind = depth.get(source) + 1;
      if (depth.get(target) < behind && behind < vertices.length) depth.set(target, behind);
    }
  }
  return depth;
}

const bendId = (number, column) => `${number}@${column}`;

// Layers of ids, with a bend for each layer that an edge passes through; hops: edges of neighbouring layers only.
function withBends(vertices, edges, depth) {
  const layers = [];
  const hops = [];
  for (const { id } of vertices) (layers[depth.get(id)] ??= []).push(id);
  const boxes = new Set(vertices.map(({ id }) => id));
  edges.forEach(({ source, target }, number) => {
    let from = source;
    for (let column = depth.get(source) + 1; column < depth.get(target); column += 1) {
      const bend = bendId(number, column);
      layers[column].push(bend);
      hops.push({ source: from, target: bend });
      from = bend;
    }
    hops.push({ source: from, target });
  });
  return { layers, hops, heights: (id) => (boxes.has(id) ? BOX.height : BEND_HEIGHT) };
}

// To and fro, each is put at the mean place of its neighbours in the layer before.
function order(layers, hops) {
  const place = new Map();
  const note = (layer) => layer.forEach((id, row) => place.set(id, row - (layer.length - 1) / 2));
  layers.forEach(note);
  for (let round = 0; round < ROUNDS; round += 1) {
    const isForth = round % 2 === 0;
    for (const layer of isForth ? layers : [...layers].reverse()) {
      const wish = new Map(layer.map((id) => [id, wished(id, hops, place, isForth)]));
      layer.sort((one, other) => wish.get(one) - wish.get(other));
      note(layer);
    }
  }
}

function wished(id, hops, place, isForth) {
  const near = hops.filter((hop) => (isForth ? hop.target : hop.source) === id);
  const places = near.map((hop) => place.get(isForth ? hop.source : hop.target));
  return places.length ? places.reduce((sum, each) => sum + each, 0) / places.length : place.get(id);
}

function path(edge, number, edges, depth, places) {
  const bends = [];
  for (let column = depth.get(edge.source) + 1; column < depth.get(edge.target); column += 1) bends.push(places.get(bendId(number, column)));
  const from = places.get(edge.source);
  const to = places.get(edge.target);
  const start = { x: from.x + BOX.width, y: from.y + port(edge, edges, "source", "target", places) };
  const end = { x: to.x - 7, y: to.y + port(edge, edges, "target", "source", places) };
  let d = `M${start.x} ${start.y}`;
  let at = start;
  for (const bend of bends) {
    const y = bend.y + bend.height / 2;
    d += `${curve(at, { x: bend.x, y })}H${bend.x + BOX.width}`;
    at = { x: bend.x + BOX.width, y };
  }
  const first = bends.length ? { x: bends[0].x, y: bends[0].y + bends[0].height / 2 } : end;
  return { edge, d: d + curve(at, end), x: (start.x + first.x) / 2, y: (start.y + first.y) / 2 };
}

function curve(from, to) {
  const bend = Math.max(24, (to.x - from.x) / 2);
  return `C${from.x + bend} ${from.y} ${to.x - bend} ${to.y} ${to.x} ${to.y}`;
}

// Edges of one box leave, and come in, one below the other.
function port(edge, edges, here, there, places) {
  const all = edges.filter((each) => each[here] === edge[here]);
  const sorted = [...all].sort((one, other) => places.get(one[there]).y - places.get(other[there]).y);
  return BOX.height / 2 + (sorted.indexOf(edge) - (all.length - 1) / 2) * Math.min(22, (BOX.height - 24) / all.length);
}
