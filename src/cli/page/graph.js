'use strict';
// The graph of a stage as nested groups, laid out in layers. Pure functions: data in, boxes and lines out.
// Groups are runs of neighbours in program order with one path, so edges between groups never form a circle.

const kLine = 14, kChar = 6.7, kGap = 14, kRank = 24, kHead = 18, kPad = 8;

// Nodes that are drawn, in program order; a source stands before its first reader and in its group.
function drawnNodes(graph, options) {
  const reader = new Map();
  graph.nodes.forEach((n, id) => n.in.forEach(([from]) => { if (!reader.has(from)) reader.set(from, id); }));
  const order = [];
  graph.nodes.forEach((n, id) => {
    if (!n.source) order.push({ id, at: id + 0.5, path: options.paths[n.origin] || [] });
    else if (options.sources && reader.has(id)) {
      let first = reader.get(id);
      while (graph.nodes[first].source && reader.has(first)) first = reader.get(first);
      const path = options.paths[graph.nodes[first].origin] || [];
      order.push({ id, at: first + id / (graph.nodes.length + 1) * 0.5, path });
    }
  });
  return order.sort((a, b) => a.at - b.at);
}

// Items of one level: leaves, and groups of at least two nodes. A group that is closed has no items.
function makeItems(nodes, depth, closed) {
  const items = [];
  for (let from = 0; from < nodes.length;) {
    const path = nodes[from].path[depth];
    let to = from + 1;
    while (path !== undefined && to < nodes.length && nodes[to].path[depth] === path) ++to;
    const members = nodes.slice(from, to);
    if (path === undefined || members.length === 1) {
      items.push({ id: members[0].id, members });
    } else {
      const open = !closed.has(path);
      items.push({ path, members, items: open ? makeItems(members, depth + 1, closed) : null });
    }
    from = to;
  }
  return items;
}

// Longest path from the first item; edges that span ranks pass through dummies, one chain per source.
function makeRanks(items, graph) {
  const owner = new Map();
  items.forEach((item, i) => item.members.forEach((m) => owner.set(m.id, i)));
  const edges = new Set();
  items.forEach((item, i) => item.members.forEach((m) => graph.nodes[m.id].in.forEach(([from]) => {
    const source = owner.get(from);
    if (source !== undefined && source !== i) edges.add(source * items.length + i);
  })));
  const links = [...edges].map((e) => [Math.floor(e / items.length), e % items.length]).sort((a, b) => a[1] - b[1]);
  const rank = items.map(() => 0);
  links.forEach(([a, b]) => { rank[b] = Math.max(rank[b], rank[a] + 1); });
  const cells = items.map((item, i) => ({ item, rank: rank[i], w: item.w, h: item.h, before: [], x: 0 }));
  const chains = new Map(), ways = new Map();
  links.forEach(([a, b]) => {
    const chain = chains.get(a) || [cells[a]];
    chains.set(a, chain);
    while (chain.length < rank[b] - rank[a]) {
      const dummy = { item: null, rank: rank[a] + chain.length, w: 6, h: 0, before: [chain[chain.length - 1]], x: 0 };
      chain.push(dummy);
      cells.push(dummy);
    }
    cells[b].before.push(chain[rank[b] - rank[a] - 1]);
    ways.set(a * items.length + b, chain.slice(1, rank[b] - rank[a]));
  });
  return { cells, owner, ways, count: items.length };
}

function placeCells(cells) {
  const rows = [];
  cells.forEach((c) => { (rows[c.rank] = rows[c.rank] || []).push(c); });
  let y = 0, width = 0;
  rows.forEach((row, r) => {
    row.forEach((c, i) => { c.wish = c.before.length ? c.before.reduce((s, b) => s + b.x, 0) / c.before.length : i; });
    if (r > 0) row.sort((a, b) => a.wish - b.wish);
    const height = Math.max(...row.map((c) => c.h), 4);
    const total = row.reduce((s, c) => s + c.w + kGap, -kGap);
    let x = -total / 2, drift = 0;
    row.forEach((c) => {  // left to right, each at its wish or beside its neighbour; then the row moves as one
      c.x = r > 0 && c.before.length ? Math.max(c.wish, x + c.w / 2) : x + c.w / 2;
      x = c.x + c.w / 2 + kGap;
      drift += c.before.length ? c.x - c.wish : 0;
    });
    const move = r > 0 ? drift / row.length : 0;
    row.forEach((c) => {
      if (!c.item) c.h = height;  // a bend passes its whole row straight, beside the boxes
      c.x -= move;
      c.y = y + (height - c.h) / 2;
    });
    y += height + kRank;
    width = Math.max(width, ...row.map((c) => Math.abs(c.x) + c.w / 2));
  });
  return { width, height: y - kRank };
}

// Gives an item w and h, and to what is in it a place relative to the item's corner.
function layoutItems(items, graph, label) {
  items.forEach((item) => {
    if (item.items) {
      item.inner = layoutItems(item.items, graph, label);
      item.w = Math.max(item.inner.w + 2 * kPad, label(item)[0].length * kChar + 30);
      item.h = item.inner.h + kHead + 2 * kPad;
    } else {
      item.lines = label(item);
      item.w = Math.max(...item.lines.map((l) => l.length)) * kChar + 16;
      item.h = item.lines.length * kLine + 8;
    }
  });
  const level = makeRanks(items, graph);
  const size = placeCells(level.cells);
  let left = Infinity, right = -Infinity;
  level.cells.forEach((c) => { left = Math.min(left, c.x - c.w / 2); right = Math.max(right, c.x + c.w / 2); });
  level.cells.forEach((c) => { c.x -= left; if (c.item) c.item.cell = c; });
  return { level, items, w: items.length ? right - left : 0, h: Math.max(size.height, 0) };
}

// Absolute boxes, outermost first, and lines as lists of points.
function flatten(layout, graph) {
  const boxes = [], place = new Map();
  const walk = (inner, x, y, chain) => {
    inner.x = x;
    inner.y = y;
    inner.items.forEach((item, index) => {
      const box = { item, x: x + item.cell.x - item.cell.w / 2, y: y + item.cell.y, w: item.w, h: item.h };
      boxes.push(box);
      const here = [...chain, { inner, index }];
      if (item.inner) {
        walk(item.inner, box.x + (item.w - item.inner.w) / 2, box.y + kHead + kPad, here);
      } else {
        item.members.forEach((m) => place.set(m.id, { box, chain: here }));
      }
    });
  };
  walk(layout, 0, 0, []);
  const lines = [], seen = new Set(), number = new Map();
  boxes.forEach((b, i) => number.set(b, i));
  graph.nodes.forEach((n, id) => n.in.forEach(([from]) => {
    const a = place.get(from), b = place.get(id);
    if (!a || !b || a.box === b.box) return;
    const key = number.get(a.box) * boxes.length + number.get(b.box);
    if (seen.has(key)) return;
    seen.add(key);
    let d = 0;
    while (d < a.chain.length && d < b.chain.length && a.chain[d].index === b.chain[d].index) ++d;
    const points = [[a.box.x + a.box.w / 2, a.box.y + a.box.h]];
    if (d < a.chain.length && d < b.chain.length) {
      const { inner, index } = a.chain[d];
      const way = inner.level.ways.get(index * inner.level.count + b.chain[d].index) || [];
      way.forEach((c) => points.push([inner.x + c.x, inner.y + c.y], [inner.x + c.x, inner.y + c.y + c.h]));
    }
    // Inside the reader's groups the line goes down the right border, not behind the boxes above the reader.
    for (let k = d + 1; k < b.chain.length; ++k) {
      const { inner, index } = b.chain[k], cell = inner.items[index].cell, side = inner.x + inner.w + 3;
      if (cell.rank > 1) points.push([side, inner.y], [side, inner.y + cell.y - kRank]);
    }
    points.push([b.box.x + b.box.w / 2, b.box.y]);
    lines.push({ from, to: id, points });
  }));
  return { boxes, lines, w: layout.w, h: layout.h };
}

function layoutGraph(graph, options) {
  const items = makeItems(drawnNodes(graph, options), 0, options.closed);
  return flatten(layoutItems(items, graph, options.label), graph);
}
