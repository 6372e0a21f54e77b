// The tables and the arena, and what starts the page.

function showCall(node) {
  setStage('lir');
  select(node);
  document.getElementById('graph').scrollIntoView();
}

function drawArena(pane, v) {
  const calls = data.calls.length, w = 760, h = 300, top = Math.max(v.arena, 1), left = 70;
  const x = (c) => left + c / (calls + 1) * (w - left), y = (b) => h - b / top * (h - 10), lir = data.graphs.at(-1);
  const svg = make(pane, 'svg', { viewBox: `0 0 ${w} ${h + 44}`, width: '100%' });
  v.buffers.forEach(([offset, size, first, last, node], i) => {
    const n = node >= 0 ? lir.nodes[node] : null;
    const width = Math.max(x(last + 1) - x(first), 0.8), height = Math.max(y(offset) - y(offset + size), 0.5);
    const r = make(svg, 'rect', { class: 'buffer', x: x(first), y: y(offset + size), width, height,
      fill: `hsl(${(i * 47) % 360} 55% 68%)`, 'data-buffer': i,
      click: () => { if (node >= 0) showCall(node); } });
    const what = n ? n.op + ' ' + n.origin : 'buffer';
    make(r, 'title', {}, `${what}: offset ${offset}, ${bytes(size)}, calls ${first} to ${last}`);
  });
  const corner = (c, b) => x(c).toFixed(1) + ',' + y(b).toFixed(1);
  const live = v.live.map((b, c) => corner(c, b) + ' ' + corner(c + 1, b)).join(' ');
  make(svg, 'polyline', { points: live, fill: 'none', stroke: '#1d2430' });
  [0, 0.5, 1].forEach((f) => make(svg, 'text', { x: 2, y: Math.max(y(top * f) - 2, 10) }, bytes(top * f)));
  lir.nodes.filter((n) => n.call !== undefined).forEach((n) => {
    const width = x(n.call + 1) - x(n.call);
    const r = make(svg, 'rect', { class: 'p' + n.phase, x: x(n.call), y: h + 4, width, height: 12 });
    make(r, 'title', {}, `call ${n.call}: ${n.kernel} ${n.origin} (${kPhases[n.phase]})`);
  });
  const tick = { stroke: '#1d2430', 'stroke-width': 0.6 };
  v.barriers.forEach((c) => make(svg, 'path', { ...tick, d: `M${x(c + 1)} ${h + 18}v8` }));
  make(svg, 'text', { x: left, y: h + 40 }, `calls 0 to ${calls - 1}; ticks: ${v.barriers.length} barriers`);
}

function arenaSection() {
  const s = section('arena', 'Arena over time', 'Each rectangle is a buffer: from its first to its last call, at its ' +
    'place in the arena. The line is the sum of live bytes; the arena can be no smaller than its peak.');
  panes(s, true, (pane, v) => {
    drawArena(pane, v);
    const ratio = (v.arena / Math.max(v.bound, 1)).toFixed(3);
    make(pane, 'p', {}, `arena ${bytes(v.arena)}, bound ${bytes(v.bound)} (${ratio} x), ` +
      `${v.buffers.length} buffers, scratch ${data.threads} x ${bytes(v.scratch)}, shared ${bytes(v.shared)}`);
  });
}

function totals(v, key) {
  const all = new Map(), g = data.graphs.length - 1;
  data.graphs[g].nodes.forEach((n, id) => {
    if (n.call === undefined) return;
    const k = key(n), t = all.get(k) || [k, 0, 0, 0, 0], c = v.costs[g][id];
    all.set(k, [k, t[1] + 1, t[2] + c[0], t[3] + c[1], t[4] + c[2]]);
  });
  return [...all.values()];
}

function costTable(pane, v, head, rows) {
  const all = Math.max(rows.reduce((s, r) => s + r[2], 0), 1), work = Math.max(rows.reduce((s, r) => s + r[4], 0), 1);
  table(pane, [head, '#calls', '#bytes', '#of weights', '#% bytes', '#operations', '#% operations'],
    rows.map((r) => [r[0], r[1], bytes(r[2]), bytes(r[3]), (100 * r[2] / all).toFixed(1), count(r[4]),
      (100 * r[4] / work).toFixed(1)]));
}

function phaseSection() {
  const s = section('phases', 'Phases', 'Prologue: once per session. Steady: every step. ' +
    'Epilogue: only for rows whose result is wanted.');
  panes(s, true, (pane, v) => costTable(pane, v, 'phase', totals(v, (n) => kPhases[n.phase])));
}

function costSection() {
  const s = section('cost', 'Cost', 'Estimates at the sizes of the variant, from shapes alone. Products: two ' +
    'operations per multiply-add, every weight read once. Attention: over a cache of ' + data.context + ' tokens.');
  panes(s, true, (pane, v) => {
    const bySize = (rows) => rows.sort((a, b) => b[2] - a[2]);
    costTable(make(pane, 'div', { class: 'scroll' }), v, 'kernel', bySize(totals(v, (n) => n.kernel)));
    costTable(make(pane, 'div', { class: 'scroll' }), v, 'part', totals(v, (n) => pathOf(n)[0] || '(none)'));
  });
}

function dispatchSection() {
  const kinds = ['native', 'common', 'rewritten', 'reference', 'view'], by = new Map();
  const s = section('dispatch', 'Dispatch');
  data.dispatch.forEach((r) => {
    const row = by.get(r.op) || { native: 0, common: 0, rewritten: 0, reference: 0, view: 0, kernels: new Map() };
    row[r.kind] = (row[r.kind] || 0) + 1;
    if (r.kernel) row.kernels.set(r.kernel, (row.kernels.get(r.kernel) || 0) + 1);
    by.set(r.op, row);
  });
  const names = (r) => [...r.kernels].map(([k, n]) => k + ' x ' + n).join(', ');
  table(s, ['op', ...kinds.map((k) => '#' + k), 'kernels'],
    [...by].map(([op, r]) => [op, ...kinds.map((k) => r[k]), names(r)]));
  const rest = data.dispatch.filter((r) => r.kind === 'common' || r.kind === 'reference');
  if (rest.length) {
    make(s, 'h3', {}, 'Not native');
    table(make(s, 'div', { class: 'scroll' }), ['node', 'op', 'kind', 'reason'],
      rest.map((r) => [r.node, r.op, r.kind, r.reason]));
  }
}

function fusionSection() {
  const f = data.fusion, s = section('fusion', 'Fusion', `${f.nodes_before} nodes became ${f.nodes_after}.`);
  table(s, ['fused op', '#count'], Object.entries(f.fused));
  const by = new Map();
  f.near_misses.forEach((m) => {
    const k = JSON.stringify([m.pass, m.reason]), e = by.get(k) || [m.pass, m.reason, 0, m.origin];
    ++e[2];
    by.set(k, e);
  });
  make(s, 'h3', {}, 'Near misses');
  if (by.size) table(make(s, 'div', { class: 'scroll' }), ['pass', 'reason', '#places', 'first'], [...by.values()]);
  else make(s, 'p', { class: 'soft' }, 'none');
  make(s, 'h3', {}, 'Passes');
  table(s, ['pass', 'changed', '#nodes before', '#after', '#us'],
    data.passes.map((p) => [p.name, p.changed ? 'yes' : '', p.before, p.after, p.us.toFixed(0)]));
}

function header() {
  const h = make(document.body, 'header');
  make(h, 'h1', {}, data.name);
  const stage = make(h, 'select', { id: 'stage', 'aria-label': 'stage', change: () => setStage(stage.value) });
  data.graphs.forEach((g) => make(stage, 'option', { value: g.stage }, g.stage.toUpperCase()));
  make(h, 'button', { click: () => { state.closed = new Set(); redraw(); } }, 'open all');
  make(h, 'button', { click: () => { state.closed = groupNames(); redraw(); } }, 'close all');
  const l = make(h, 'label');
  const change = () => { state.sources = box.checked; redraw(); };
  const box = make(l, 'input', { type: 'checkbox', id: 'sources', change });
  make(l, 'span', {}, ' inputs, states and weights');
  const search = make(h, 'input', { id: 'search', type: 'search', placeholder: 'find a node by name',
    input: () => find(search.value, false),
    keydown: (e) => { if (e.key === 'Enter') find(search.value, true); } });
  const key = make(h, 'span', { class: 'soft' });
  kPhases.forEach((p) => {
    make(key, 'span', { class: 'swatch', style: `background: var(--${p})` });
    make(key, 'span', {}, p);
  });
}

// #stage=mir&sources=1&close=layers.0,layers.1&open=layers.2&toggle=layers.0&find=NAME; open=* is every group, and
// `toggle` clicks on the group's head.
function followHash() {
  const wish = new URLSearchParams(location.hash.slice(1));
  const list = (key) => (wish.get(key) || '').split(',').filter((p) => p !== '');
  if (wish.has('stage')) setStage(wish.get('stage'));
  if (wish.has('sources')) document.getElementById('sources').checked = state.sources = wish.get('sources') !== '0';
  if (wish.get('open') === '*') state.closed = new Set();
  list('close').forEach((p) => state.closed.add(p));
  list('open').forEach((p) => state.closed.delete(p));
  redraw();
  list('toggle').forEach((p) => {
    const head = document.querySelector(`.group[data-path="${CSS.escape(p)}"] > .head`);
    if (head) head.dispatchEvent(new MouseEvent('click', { bubbles: true }));
  });
  if (wish.has('find')) {
    document.getElementById('search').value = wish.get('find');
    find(wish.get('find'), true);
  }
}

function start() {
  header();
  const s = section('graph', 'Graph'), work = make(s, 'div', { class: 'work' });
  make(work, 'div', { id: 'graphs' });
  const side = make(work, 'div', { class: 'side' });
  make(side, 'ul', { id: 'hits' });
  make(side, 'div', { id: 'detail' });
  setStage(data.stage);
  phaseSection();
  arenaSection();
  costSection();
  dispatchSection();
  fusionSection();
  window.addEventListener('hashchange', followHash);
  if (location.hash) followHash();
  document.body.dataset.ready = 'yes';
}
start();
