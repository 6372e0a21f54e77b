// Draws the page from the JSON in it. Text of the data reaches the document as text nodes and attributes alone.

const data = JSON.parse(document.getElementById('data').textContent);
const kPhases = ['prologue', 'steady', 'epilogue'];
const state = { stage: data.stage, closed: new Set(), sources: false, selected: -1, drawn: 0 };

function make(parent, name, attributes, text) {
  const svg = parent instanceof SVGElement || name === 'svg';
  const e = svg ? document.createElementNS('http://www.w3.org/2000/svg', name) : document.createElement(name);
  for (const key in attributes || {}) {
    if (typeof attributes[key] === 'function') e.addEventListener(key, attributes[key]);
    else e.setAttribute(key, attributes[key]);
  }
  if (text !== undefined) e.textContent = text;
  parent.appendChild(e);
  return e;
}

function amount(n, base, units) {
  let i = 0;
  while (n >= base && i + 1 < units.length) { n /= base; ++i; }
  return (i === 0 || n >= 100 ? n.toFixed(0) : n.toFixed(1)) + ' ' + units[i];
}
const bytes = (n) => amount(n, 1024, ['B', 'KiB', 'MiB', 'GiB', 'TiB']);
const count = (n) => amount(n, 1000, ['op', 'kop', 'Mop', 'Gop', 'Top']);
const sizesText = (v) => Object.entries(v.sizes).map(([s, n]) => s + '=' + n).join(' ');
const graphIndex = () => data.graphs.findIndex((g) => g.stage === state.stage);
const graphNow = () => data.graphs[graphIndex()];
const shapesOf = (v, id) => v.shapes[graphIndex()][id] || graphNow().nodes[id].out;
const costOf = (v, id) => v.costs[graphIndex()][id];
const pathOf = (n) => data.paths[n.origin] || [];

function table(parent, heads, rows) {
  const t = make(parent, 'table'), head = make(make(t, 'thead'), 'tr'), body = make(t, 'tbody');
  heads.forEach((h) => make(head, 'th', { class: h.startsWith('#') ? 'n' : '' }, h.replace('#', '')));
  rows.forEach((row) => {
    const tr = make(body, 'tr');
    row.forEach((cell, i) => make(tr, 'td', { class: (heads[i] || '').startsWith('#') ? 'n' : 'mono' }, String(cell)));
  });
  return t;
}

function section(id, title, note) {
  const s = make(document.body, 'section', { id });
  make(s, 'h2', {}, title);
  if (note) make(s, 'p', { class: 'soft' }, note);
  return s;
}

function panes(parent, short, draw) {
  const grid = make(parent, 'div', { class: 'panes' });
  data.variants.forEach((v, i) => {
    const column = make(grid, 'div', { 'data-variant': i });
    make(column, 'h3', { class: 'mono' }, sizesText(v));
    draw(make(column, 'div', { class: 'pane' + (short ? ' short' : '') }), v);
  });
}

// ---- graph ----

function sum(v, members) {
  return members.map((m) => costOf(v, m.id)).reduce((s, c) => s.map((n, i) => n + c[i]), [0, 0, 0]);
}

function label(v, item) {
  if (item.path !== undefined) {
    if (item.items) return [item.path];
    const c = sum(v, item.members);
    return ['+ ' + item.path + ' (' + item.members.length + ')', bytes(c[0]) + ', ' + count(c[2])];
  }
  const n = graphNow().nodes[item.id], lines = [n.name ? n.op + ' ' + n.name : n.op, shapesOf(v, item.id).join(', ')];
  if (n.kernel) lines.push(n.kernel);
  const c = costOf(v, item.id);
  if (!n.source) lines.push(bytes(c[0]) + ', ' + count(c[2]));
  return lines;
}

function curve(points) {
  let d = 'M' + points[0].map((x) => x.toFixed(1)).join(' ');
  for (let i = 1; i < points.length; ++i) {
    const [x0, y0] = points[i - 1], [x, y] = points[i], m = (y0 + y) / 2;
    d += 'C' + [x0, m, x, m, x, y].map((k) => k.toFixed(1)).join(' ');
  }
  return d;
}

function writeLines(parent, lines, x, y) {
  lines.forEach((l, i) => make(parent, 'text', { x, y: y + i * kLine, 'font-weight': i ? 400 : 700 }, l));
}

function drawBox(parent, box) {
  const item = box.item, group = item.path !== undefined;
  const shape = { x: box.x, y: box.y, width: box.w, height: box.h, rx: 4 };
  if (!group) {
    const n = graphNow().nodes[item.id];
    const g = make(parent, 'g', { class: 'node', 'data-id': item.id, click: () => select(item.id) });
    make(g, 'rect', { ...shape, class: n.source ? 'ps' : 'p' + n.phase });
    writeLines(g, item.lines, box.x + 8, box.y + 15);
    make(g, 'title', {}, (n.name || n.op) + '  ' + n.origin + '  ' + n.attrs);
    return;
  }
  const kind = item.items ? 'group' : 'group closed';
  const g = make(parent, 'g', { class: kind, 'data-path': item.path, 'data-closed': !item.items });
  make(g, 'rect', { ...shape });
  const head = make(g, 'g', { class: 'head', click: () => toggle(item.path) });
  make(head, 'rect', { ...shape, height: item.items ? kHead : box.h, fill: 'transparent', stroke: 'none' });
  const lines = item.items ? ['- ' + item.path] : item.lines;
  writeLines(head, lines, box.x + 8, box.y + 14);
}

function drawGraph(pane, v) {
  const graph = graphNow();
  const layout = layoutGraph(graph, { ...state, paths: data.paths, label: (item) => label(v, item) });
  const width = layout.w + 8, height = layout.h + 8;
  const svg = make(pane, 'svg', { width, height, viewBox: `-4 -4 ${width} ${height}` });
  const frames = layout.boxes.filter((b) => b.item.items), others = layout.boxes.filter((b) => !b.item.items);
  frames.forEach((b) => drawBox(svg, b));
  layout.lines.forEach((l) =>
    make(svg, 'path', { class: 'wire', d: curve(l.points), 'data-edge': l.from + '-' + l.to }));
  others.forEach((b) => drawBox(svg, b));
  state.drawn = layout.boxes.length;
}

function redraw() {
  const place = document.getElementById('graphs');
  const old = [...place.querySelectorAll('.pane')].map((p) => [p.scrollLeft, p.scrollTop]);
  place.textContent = '';
  panes(place, false, drawGraph);
  place.querySelectorAll('.pane').forEach((p, i) => { if (old[i]) [p.scrollLeft, p.scrollTop] = old[i]; });
  document.body.dataset.drawn = state.drawn;
  document.body.dataset.stage = state.stage;
  mark();
}

function toggle(path) {
  if (!state.closed.delete(path)) state.closed.add(path);
  redraw();
}

const groupNames = () => new Set(graphNow().nodes.flatMap((n) => (n.source ? [] : pathOf(n))));

// Large graphs open with one layer shown: the first group that is numbered stays open.
function closeMost() {
  state.closed = new Set();
  const names = [...groupNames()];
  if (graphNow().nodes.filter((n) => !n.source).length <= 40) return;
  const outer = names.filter((p) => graphNow().nodes.some((n) => pathOf(n)[0] === p));
  const first = outer.find((p) => /\d$/.test(p));
  outer.filter((p) => p !== first).forEach((p) => state.closed.add(p));
}

// What stands for a node in the drawing: itself, its first reader when it is a source that is not drawn.
function standIn(id) {
  const nodes = graphNow().nodes;
  for (let next = id; nodes[next].source && !state.sources;) {
    next = nodes.findIndex((n) => n.in.some(([from]) => from === next));
    if (next < 0) return id;
    id = next;
  }
  return id;
}

function mark() {
  document.querySelectorAll('.hit').forEach((e) => e.classList.remove('hit'));
  if (state.selected < 0) return;
  const id = standIn(state.selected);
  document.querySelectorAll(`.node[data-id="${id}"]`).forEach((e) => e.classList.add('hit'));
  document.querySelectorAll('.wire').forEach((e) => {
    if (e.dataset.edge.split('-').includes(String(id))) e.classList.add('hit');
  });
}

function select(id) {
  state.selected = id;
  const n = graphNow().nodes[id], box = document.getElementById('detail');
  let closed = false;
  pathOf(graphNow().nodes[standIn(id)]).forEach((p) => { closed = state.closed.delete(p) || closed; });
  if (closed) redraw();
  mark();
  box.textContent = '';
  make(box, 'h3', { class: 'mono' }, n.name || n.op);
  const name = ([from, index]) => {
    const f = graphNow().nodes[from];
    return (f.name || f.op) + ' #' + from + (index ? '.' + index : '');
  };
  const rows = [['op', n.op], ['number', '#' + id], ['origin', n.origin], ['phase', kPhases[n.phase]],
    ['kernel', n.kernel || ''], ['attributes', n.attrs],
    ['operands', n.in.map(name).join(', ')], ['results', n.out.join(', ')]];
  data.variants.forEach((v) => {
    const c = costOf(v, id), cost = n.source ? '' : `; ${bytes(c[0])} (${bytes(c[1])} of weights), ${count(c[2])}`;
    rows.push([sizesText(v), shapesOf(v, id).join(', ') + cost]);
  });
  table(box, ['', ''], rows.filter((r) => r[1] !== ''));
  document.querySelectorAll('.node.hit').forEach((hit) => {
    const pane = hit.closest('.pane'), at = hit.getBoundingClientRect(), frame = pane.getBoundingClientRect();
    pane.scrollTop += at.top - frame.top - (frame.height - at.height) / 2;
    pane.scrollLeft += at.left - frame.left - (frame.width - at.width) / 2;
  });
}

function matches(text) {
  const wanted = text.toLowerCase(), exact = [], part = [];
  graphNow().nodes.forEach((n, id) => {
    const words = [n.name, n.origin, n.op, n.kernel || '', '#' + id].map((w) => w.toLowerCase());
    if (words[0] === wanted || words[4] === wanted) exact.push(id);
    else if (words.some((w) => w.includes(wanted))) part.push(id);
  });
  return exact.concat(part);
}

function find(text, choose) {
  const list = document.getElementById('hits');
  list.textContent = '';
  const hits = text === '' ? [] : matches(text);
  hits.slice(0, 100).forEach((id) => {
    const n = graphNow().nodes[id];
    make(list, 'li', { class: 'mono', click: () => select(id) }, '#' + id + ' ' + (n.name || n.op) + '  ' + n.origin);
  });
  document.body.dataset.found = hits.length;
  if (choose && hits.length) select(hits[0]);
}

function setStage(stage) {
  if (!data.graphs.some((g) => g.stage === stage)) return;
  state.stage = stage;
  state.selected = -1;
  document.getElementById('stage').value = stage;
  document.getElementById('detail').textContent = '';
  closeMost();
  redraw();
}
