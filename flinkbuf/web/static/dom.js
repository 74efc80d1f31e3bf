// Elements out of data: h() and s() say what there should be, draw() makes the page so. What is already right is left
// alone, so that focus, selected text, scroll positions and opened details outlive a new picture.

const SVG = "http://www.w3.org/2000/svg";
const PROPERTIES = new Set(["value", "checked", "disabled", "scrollTop"]);

export function h(tag, attributes, ...children) {
  const kept = children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false);
  return { tag, attributes: attributes ?? {}, children: kept, space: null };
}

export function s(tag, attributes, ...children) {
  return { ...h(tag, attributes, ...children), space: SVG };
}

// Makes the children of an element what the descriptions say. Texts are always text, never markup.
export function draw(parent, ...wanted) {
  const descriptions = wanted.flat(Infinity).filter((each) => each !== null && each !== undefined && each !== false);
  descriptions.forEach((description, place) => {
    const present = parent.childNodes[place];
    if (present === undefined) parent.appendChild(made(description));
    else if (!fits(present, description)) parent.replaceChild(made(description), present);
    else update(present, description);
  });
  while (parent.childNodes.length > descriptions.length) parent.lastChild.remove();
}

function isText(description) {
  return typeof description !== "object";
}

function fits(node, description) {
  if (isText(description)) return node.nodeType === Node.TEXT_NODE;
  return node.localName === description.tag && node.drawnKey === description.attributes.key;
}

function made(description) {
  if (isText(description)) return document.createTextNode(description);
  const { tag, space, attributes } = description;
  const element = space ? document.createElementNS(space, tag) : document.createElement(tag);
  element.drawnKey = attributes.key;
  update(element, description);
  return element;
}

function update(node, description) {
  if (isText(description)) {
    const text = String(description);
    if (node.data !== text) node.data = text;
    return;
  }
  const before = node.drawnAttributes ?? {};
  const { attributes } = description;
  for (const name of Object.keys(before)) if (!(name in attributes)) assign(node, name, null);
  for (const [name, value] of Object.entries(attributes)) if (before[name] !== value) assign(node, name, value);
  node.drawnAttributes = attributes;
  draw(node, description.children);
}

function assign(element, name, value) {
  const isGone = value === null || value === undefined || value === false;
  if (name === "key") return;
  if (name.startsWith("on")) element[name] = isGone ? null : value;
  else if (name === "style") element.style.cssText = isGone ? "" : value; // allowed by the strictest content policy
  else if (PROPERTIES.has(name)) element[name] = isGone ? "" : value;
  else if (isGone) element.removeAttribute(name);
  else element.setAttribute(name, value === true ? "" : value);
}
