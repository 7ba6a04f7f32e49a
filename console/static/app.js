// The page asks for news once a second while it can be seen. All that comes from the store
// is put in as text, never as HTML.
const $ = id => document.getElementById(id);
const svgNS = 'http://www.w3.org/2000/svg';
const still = matchMedia('(prefers-reduced-motion: reduce)');

function el(tag, attrs = {}, ...kids) {
  const e = document.createElement(tag);
  for (const [k, v] of Object.entries(attrs)) k === 'onclick' ? e.addEventListener('click', v) : e.setAttribute(k, v);
  e.append(...kids.map(k => k instanceof Node ? k : document.createTextNode(String(k))));
  return e;
}
function shape(tag, attrs, text) {
  const e = document.createElementNS(svgNS, tag);
  for (const [k, v] of Object.entries(attrs)) e.setAttribute(k, v);
  if (text !== undefined) e.textContent = text;
  return e;
}
const count = n => Number(n || 0).toLocaleString('en', {maximumFractionDigits: n < 10 ? 1 : 0});
const size = n => { let u = 0; n = Number(n || 0); while (n >= 999.5 && u < 4) { n /= 1024; u++; } return n.toLocaleString('en', {maximumSignificantDigits: 3}) + ' ' + ['B', 'KiB', 'MiB', 'GiB', 'TiB'][u]; };
const when = t => t ? new Date(t).toISOString().replace('T', ' ').slice(0, 19) : '–';
const span = ns => ns < 1e6 ? (ns / 1e3).toFixed(0) + ' µs' : ns < 1e9 ? (ns / 1e6).toFixed(1) + ' ms' : (ns / 1e9).toFixed(1) + ' s';
const short = epk => epk === '' ? '00' : epk.length > 8 ? epk.slice(0, 8) + '…' : epk;

async function ask(path, query = {}, post) {
  const params = new URLSearchParams(Object.entries(query).filter(([, v]) => v !== undefined && v !== ''));
  const r = await fetch(path + (post ? '' : '?' + params), post ? {method: 'POST', headers: {'Content-Type': 'application/json'}, body: JSON.stringify(post)} : {});
  let body;
  try { body = await r.json(); } catch { throw new Error('the answer of ' + path + ' is not JSON (status ' + r.status + ')'); }
  if (!r.ok) throw Object.assign(new Error(body.error || 'status ' + r.status), body);
  return body;
}

// table fills a place with a table: heads are [title, left-aligned].
function table(place, heads, rows, empty = 'none') {
  if (!rows.length) { place.replaceChildren(el('p', {class: 'muted'}, empty)); return; }
  const t = el('table', {}, el('thead', {}, el('tr', {}, ...heads.map(([h, l]) => el('th', l ? {class: 'l', scope: 'col'} : {scope: 'col'}, h)))));
  const b = el('tbody');
  for (const row of rows) b.append(el('tr', {}, ...row.map((c, i) => el('td', heads[i][1] ? {class: heads[i][2] || 'l'} : {}, c))));
  t.append(b);
  place.replaceChildren(t);
}
const facts = (place, list) => place.replaceChildren(el('dl', {}, ...list.flatMap(([k, v]) => [el('dt', {}, k), el('dd', {}, v)])));
const bar = (v, most, label) => el('meter', {min: 0, max: most || 1, value: v, 'aria-label': label});

const ramp = [[91, 143, 199], [143, 199, 169], [255, 209, 102], [243, 114, 44], [215, 38, 61]];
function colour(x) {
  x = Math.max(0, Math.min(1, x)) * (ramp.length - 1);
  const i = Math.min(ramp.length - 2, Math.floor(x)), f = x - i;
  return 'rgb(' + ramp[i].map((c, k) => Math.round(c + (ramp[i + 1][k] - c) * f)).join(',') + ')';
}

const state = {name: '', series: [], rows: [], since: 0, rowsSince: 0, event: 0, events: [], by: 'heat', can: {}, cut: null, scale: 1, blocks: [], seen: new Set(), fails: 0, keysAt: 0};

function tiles(v) {
  const s = state.series, last = s.at(-1) || {};
  const list = [
    ['reads', count(last.reads_per_s) + '/s', 'reads_per_s'], ['writes', count(last.writes_per_s) + '/s', 'writes_per_s'],
    ['load', count(v.total.load_ru_per_s) + ' RU/s', 'load_ru_per_s'], ['refused (429)', count(last.throttled_per_s) + '/s', 'throttled_per_s', last.throttled_per_s > 0],
    ['stalls', count(last.stalls_per_s) + '/s', 'stalls_per_s', last.stalls_per_s > 0], ['documents', '≤ ' + count(v.total.documents)],
    ['in files', size(v.total.file_bytes)], ['write buffers', size(v.stats.buffer_bytes)], ['partitions', count(v.physical_partitions)],
  ];
  $('tiles').replaceChildren(...list.map(([name, value, key, alarm]) => {
    const t = el('div', {class: 'tile' + (alarm ? ' alarm' : '')}, el('span', {class: 'muted'}, name), el('b', {}, value));
    if (key && s.length > 1) {
      const most = Math.max(1, ...s.map(p => p[key])), w = s.length - 1;
      const svg = shape('svg', {viewBox: `0 0 ${w} 24`, preserveAspectRatio: 'none', 'aria-hidden': 'true'});
      svg.append(shape('path', {d: 'M' + s.map((p, i) => i + ' ' + (23 - 22 * p[key] / most).toFixed(1)).join('L')}));
      t.append(svg);
    }
    return t;
  }));
}

function drawSpace() {
  const svg = $('space'), w = svg.clientWidth || 800, h = 96, blocks = state.blocks;
  const percent = x => 100 * x + '%'; // so that another width of the window moves nothing
  const heat = state.by === 'heat';
  const most = Math.max(1, ...blocks.map(b => heat ? b.hottest_ru_per_s : b.raw_bytes / b.partitions));
  const tallest = Math.max(1, ...blocks.map(b => b.raw_bytes / b.partitions));
  const old = new Map([...svg.querySelectorAll('rect')].map(r => [r.dataset.id, r])), kept = [];
  svg.querySelectorAll('text,line').forEach(e => e.remove());
  for (const b of blocks) {
    const id = String(b.id);
    let r = old.get(id);
    if (!r) {
      r = shape('rect', {y: 0, tabindex: 0, role: 'button'});
      r.dataset.id = id;
      r.append(shape('title', {}));
      r.addEventListener('click', e => pick(r.block, e.offsetX === undefined ? null : e));
      r.addEventListener('keydown', e => { if (e.key === 'Enter' || e.key === ' ') { e.preventDefault(); pick(r.block); } });
      if (state.seen.size && !state.seen.has(id) && !still.matches) r.classList.add('born');
      svg.append(r);
    }
    r.block = b; kept.push(r);
    const value = heat ? b.hottest_ru_per_s : b.raw_bytes / b.partitions;
    const full = 30 + (h - 30) * (b.raw_bytes / b.partitions) / tallest;
    const text = `${b.partitions > 1 ? b.partitions + ' partitions from ' + b.id : 'partition ' + b.id}: ${short(b.min)} to ${short(b.max)}, ${count(b.documents)} documents at most, ${size(b.raw_bytes)}, ${count(b.load_ru_per_s)} RU/s, ${count(b.throttled)} refused`;
    for (const [k, v] of Object.entries({x: percent(b.from), width: percent(b.to - b.from), y: h - full, height: full, fill: colour(value / most), 'aria-label': text})) r.setAttribute(k, v);
    r.firstChild.textContent = text;
  }
  for (const r of old.values()) if (!kept.includes(r)) r.remove();
  for (const b of blocks) {
    state.seen.add(String(b.id));
    if ((b.to - b.from) * w > 52) {
      svg.append(shape('text', {x: percent(b.from), dx: 5, y: h - 18}, b.partitions > 1 ? b.partitions + ' parts' : '#' + b.id));
      svg.append(shape('text', {x: percent(b.from), dx: 5, y: h - 5}, heat ? count(b.hottest_ru_per_s) + ' RU/s' : size(b.raw_bytes)));
    }
  }
  if (state.cut) svg.append(shape('line', {x1: percent(state.cut.place), x2: percent(state.cut.place), y1: 0, y2: h}));
  $('space-note').textContent = blocks.length ? `${count(state.parts)} physical partitions; height is size. Choose one to weigh a cut.` : 'no container yet';
}

function pick(b, e) {
  $('cut-id').value = b.id;
  $('cut-at').value = '';
  if (e) { // the place under the pointer
    const x = e.offsetX / ($('space').clientWidth || 1);
    if (x > b.from && x < b.to && e.shiftKey) $('cut-at').value = BigInt(Math.floor(x * 2 ** 52) * 1024).toString(16).toUpperCase().padStart(16, '0');
  }
  weigh();
}

async function weigh(e) {
  e?.preventDefault();
  const out = $('cut-out');
  try {
    const v = await ask('api/cut', {name: state.name, partition: $('cut-id').value, at: $('cut-at').value.trim()});
    state.cut = v;
    const balance = (l, r) => { const i = el('i'), b = el('div', {class: 'balance', role: 'img', 'aria-label': `${(100 * l / (l + r || 1)).toFixed(0)} % on the left`}, i); i.style.width = 100 * l / (l + r || 1) + '%'; return b; };
    out.replaceChildren(
      el('p', {}, `Partition ${v.partition} at ${short(v.at)}: `),
      el('div', {class: 'muted'}, `bytes: ${size(v.left_bytes)} left, ${size(v.right_bytes)} right`), balance(v.left_bytes, v.right_bytes),
      el('div', {class: 'muted'}, `load, estimated: ${count(v.left_ru_per_s)} RU/s left, ${count(v.right_ru_per_s)} RU/s right`), balance(v.left_ru_per_s, v.right_ru_per_s));
    if (state.can.split) out.append(el('button', {onclick: async () => {
      try { await ask('api/split', {}, {name: state.name, partition: v.partition, at: v.at}); out.append(el('p', {}, 'The split is queued.')); } catch (err) { out.append(el('p', {class: 'problem'}, err.message)); }
    }}, 'Split here'));
    drawSpace();
  } catch (err) { out.replaceChildren(el('p', {class: 'problem'}, err.message)); }
}

function drawMovie() {
  const c = $('movie'), w = c.clientWidth || 800, h = 200, g = c.getContext('2d'), dark = matchMedia('(prefers-color-scheme: dark)').matches;
  c.width = w; c.height = h;
  const rows = state.rows.slice(-120), each = h / 120;
  const most = Math.max(1, ...rows.flatMap(r => r.ru));
  rows.toReversed().forEach((r, i) => {
    const y = i * each;
    r.from.forEach((f, k) => {
      const to = k + 1 < r.from.length ? r.from[k + 1] : 1;
      g.fillStyle = colour(r.ru[k] / most);
      g.fillRect(f * w, y, (to - f) * w + 1, each + 1);
    });
    g.fillStyle = dark ? '#12161c' : '#fff';
    if (r.from.length <= 64) r.from.slice(1).forEach(f => g.fillRect(f * w - .75, y, 1.5, each + 1));
  });
  $('hottest').textContent = count(most) + ' RU/s';
}

function drawHistory(list) {
  const rows = list.slice(-40).toReversed();
  table($('history'), [['when (UTC)', 1], ['what', 1], ['parents', 1], ['children', 1], ['boundary', 1]], rows.map(r => [
    when(r.time), r.kind, r.parents.map(p => p.id).join(' + '), r.children.map(p => p.id).join(' + '), r.children.length > 1 ? short(r.children[1].min) : '–']), 'no physical partition was split yet');
  const svg = $('tree'), w = svg.clientWidth || 800, level = 20;
  svg.replaceChildren();
  const place = hex => hex === 'FF' ? 1 : Number(BigInt('0x' + (hex + '0'.repeat(16)).slice(0, 16))) / 2 ** 62;
  const depth = new Map(), boxes = [], gone = new Set(list.flatMap(r => r.parents.map(p => p.id)));
  for (const r of list) {
    for (const p of r.parents) if (!depth.has(p.id)) { depth.set(p.id, 0); boxes.push([p, 0]); }
    const d = 1 + Math.max(...r.parents.map(p => depth.get(p.id)));
    for (const p of r.children) { depth.set(p.id, d); boxes.push([p, d]); }
  }
  const deepest = Math.max(0, ...boxes.map(b => b[1]));
  svg.setAttribute('height', boxes.length ? (deepest + 1) * level : 0);
  for (const [p, d] of boxes) {
    if (!p.max) continue;
    const x = place(p.min) * w, width = Math.max(1, place(p.max) * w - x);
    const r = shape('rect', {x, y: d * level, width, height: level - 2, rx: 2, class: gone.has(p.id) ? '' : 'now'});
    r.append(shape('title', {}, `partition ${p.id}: ${short(p.min)} to ${short(p.max)}`));
    svg.append(r);
    if (width > 24) svg.append(shape('text', {x: x + 4, y: d * level + 13}, p.id));
  }
}

const keyTable = (place, rows, heads, cells, empty) => table(place, heads, rows.map(r => [el('button', {onclick: () => showKey(r.key), title: r.key}, r.key.length > 40 ? r.key.slice(0, 40) + '…' : r.key), ...cells(r)]), empty);

async function keys() {
  const v = await ask('api/keys', {name: state.name});
  keyTable($('hot'), v.hot, [['key', 1], ['RU/s'], ['ops/s'], ['partition']], r => [count(r.ru_per_s), count(r.ops_per_s), r.partition], 'no load of late');
  keyTable($('largest'), v.largest, [['key', 1], ['bytes'], ['of the limit'], ['versions'], ['partition']], r => [size(r.bytes), bar(r.bytes, v.limit, 'share of the limit'), count(r.versions), r.partition], v.partial ? 'looking' : 'none');
  if (v.partial && v.largest.length) $('largest').append(el('p', {class: 'muted'}, `among the first ${count(v.looked)}: the time did not suffice for more`));
}

function storePart(v) {
  const s = v.stats;
  facts($('memory'), [['budget', size(s.memory_budget_bytes)], ['write buffers', size(s.buffer_bytes)], ['of them indexes', size(s.index_bytes)], ['held', size(s.held_bytes)], ['hot documents', size(s.hot_bytes)], ['stalls', `${count(s.stalls)} (${span(s.stalled_ns)})`]]);
  facts($('disk'), [['documents', size(v.total.raw_bytes)], ['files', size(v.total.file_bytes)], ['dead versions', count(v.total.dead)], ['waiting to be removed', size(s.obsolete_bytes)], ['log', size(s.log.bytes ?? s.log.Bytes)], ['flushes, compactions', `${count(s.flushes)}, ${count(s.compactions)}`], ['open, mapped files', `${count(s.open_files)}, ${count(s.mapped_files)}`], ['background errors', count(s.background_errors)], ['last sequence', count(s.last_seq)], ['directory', v.dir]]);
  table($('jobs'), [['job', 1], ['container', 1], ['state', 1], ['progress', 1]], v.jobs.map(j => [j.kind + (j.parents ? ' of ' + j.parents.join(', ') : ''), j.container, j.phase || (j.pass ? 'pass ' + j.pass : 'running'), j.total ? bar(j.done || 0, j.total, `${j.done || 0} of ${j.total}`) : '–']), 'no job');
  table($('holders'), [['what', 1], ['count'], ['since', 1]], (s.holders || []).map(h => [h.what + (h.container ? ' of ' + h.container : ''), count(h.count), when(h.since)]), 'nothing');
  table($('feeds'), [['container', 1], ['scope', 1], ['shown'], ['behind'], ['lag']], (s.feeds || []).map(f => [f.container, f.scope, count(f.shown), count(f.behind_sequences), f.lag_ns ? span(f.lag_ns) : '0']), 'no feed runs');
  table($('damage'), [['container', 1], ['partition'], ['what', 1]], (s.damage || []).map(d => [d.container, d.partition, d.error]), 'none met');
  table($('events'), [['when (UTC)', 1], ['what', 1], ['container', 1], ['', 1]], state.events.slice(-60).toReversed().map(e => [when(e.t), e.kind, e.container || '', e.text]), v.events_recorded ? 'nothing yet' : 'not recorded: see console.Events');
}

async function containers() {
  const v = await ask('api/containers', {filter: $('filter').value, limit: 100, sort: 'load'});
  table($('containers'), [['name', 1], ['key', 1], ['partitions'], ['documents ≤'], ['size'], ['RU/s'], ['refused']], v.rows.map(c => [el('button', {onclick: () => choose(c.name)}, c.name), c.partition_key, count(c.physical_partitions), count(c.documents), size(c.raw_bytes), count(c.load_ru_per_s), count(c.throttled)]), 'no container');
  if (v.total > v.rows.length) $('containers').append(el('p', {class: 'muted'}, `${count(v.rows.length)} of ${count(v.total)}: filter for others`));
  return v;
}

async function names() {
  const v = await ask('api/containers', {limit: 500}), s = $('container');
  const list = v.rows.map(c => c.name);
  if (state.name && !list.includes(state.name)) list.push(state.name);
  if (list.join('\n') !== [...s.options].map(o => o.value).join('\n')) s.replaceChildren(...list.map(n => el('option', {value: n}, n)));
  if (!state.name && list.length) choose(list[0]);
  s.value = state.name;
}

function choose(name) {
  Object.assign(state, {name, rows: [], rowsSince: 0, cut: null, seen: new Set(), keysAt: 0});
  $('cut-out').replaceChildren();
  tick();
}

async function tick() {
  try {
    const v = await ask('api/store', {since: state.since, event: state.event});
    state.series = state.series.concat(v.series.filter(p => p.t > state.since)).slice(-240);
    state.since = state.series.at(-1)?.t || 0;
    state.events = state.events.concat(v.events.filter(e => e.number > state.event)).slice(-500);
    state.event = state.events.at(-1)?.number || 0;
    state.can = v.can;
    document.title = v.title + ' – Cleave';
    $('title').textContent = v.title;
    $('state').textContent = v.state; $('state').className = 'pill ' + v.state;
    $('problem').hidden = !v.problem && v.state !== 'closed';
    $('problem').textContent = v.state === 'closed' ? 'The store is closed: these are the last figures.' : v.problem || '';
    tiles(v); storePart(v);
    if (v.state === 'closed') { state.fails = 0; return; }
    await names();
    if (state.name) {
      const c = await ask('api/container', {name: state.name, since: state.rowsSince});
      if (c.name === state.name) {
        state.rows = state.rows.concat(c.rows.filter(r => r.t > state.rowsSince)).slice(-240);
        state.rowsSince = state.rows.at(-1)?.t || 0;
        state.blocks = c.blocks || []; state.parts = c.physical_partitions;
        drawSpace(); drawMovie(); drawHistory(c.history || []);
      }
      const p = await ask('api/partitions', {name: state.name, sort: 'load', limit: 20});
      table($('parts'), [['id'], ['from', 1], ['to', 1], ['documents ≤'], ['size'], ['RU/s'], ['limit'], ['refused'], ['runs'], ['dead']], p.rows.map(r => [r.id, short(r.min), short(r.max), count(r.documents), size(r.raw_bytes), count(r.heat_ru_per_s), r.throughput_ru_per_s ? count(r.throughput_ru_per_s) : '–', count(r.throttled), r.runs, count(r.dead)]));
      $('parts-note').textContent = p.total > p.rows.length ? `the ${p.rows.length} hottest of ${count(p.total)}` : '';
      if (Date.now() - state.keysAt > 3000) { state.keysAt = Date.now(); await keys(); }
    } else { drawSpace(); }
    if (location.hash === '#store') await containers();
    state.fails = 0;
  } catch (err) {
    state.fails++;
    $('state').textContent = err.kind === 'closed' ? 'closed' : 'no connection'; $('state').className = 'pill lost';
    $('problem').hidden = false; $('problem').textContent = err.message;
  }
}

function failed(place, err) { place.hidden = !err; place.textContent = err ? err.message + (err.line ? ` (line ${err.line}, column ${err.column})` : '') : ''; }

async function query(planOnly, more) {
  const out = $('query-out');
  failed($('query-error'));
  try {
    const v = await ask('api/query', {}, {name: state.name, query: $('query-text').value, parameters: {}, key: $('query-key').value.trim(), continue: more || '', plan_only: planOnly});
    const plan = el('div', {class: 'card'}, el('h2', {}, 'Plan')), facted = el('div'), parts = el('div', {class: 'scroll'});
    facts(facted, [['where', v.plan.scope], ['filter', v.plan.filter], ['documents', v.plan.method], ['order', v.plan.order], ['charge, estimated', count(v.plan.charge) + ' RU']]);
    table(parts, [['partition'], ['versions'], ['runs'], ['candidates']], v.plan.partitions.map(p => [p.id, count(p.versions), p.runs, p.no_index ? 'read one by one' : count(p.candidates)]));
    plan.append(facted);
    if (v.plan.suggest) plan.append(el('p', {class: 'advice'}, `An index would help: include ${v.plan.suggest.join(', ')}. Then: ${v.plan.suggested}.`));
    if (v.plan_partitions > v.plan.partitions.length) plan.append(el('p', {class: 'muted'}, `the first ${v.plan.partitions.length} of ${v.plan_partitions} partitions`));
    plan.append(parts);
    const cards = [plan];
    if (v.ran) {
      const took = el('div', {class: 'card'}, el('h2', {}, 'What it took')), f = el('div');
      facts(f, [['results', count(v.stats.results)], ['documents read', `${count(v.stats.documents)} (${size(v.stats.bytes)})`], ['candidates of indexes', count(v.stats.candidates)], ['matched', count(v.stats.matched)], ['partitions', count(v.stats.partitions)], ['charge', v.stats.charge.toFixed(1) + ' RU'], ['duration', v.elapsed_ms.toFixed(1) + ' ms']]);
      took.append(f);
      const results = el('div', {class: 'card wide'}, el('h2', {}, 'Results')), list = el('div', {class: 'scroll'});
      table(list, [['key', 1], ['id', 1], ['result', 1, 'l doc']], v.rows.map(r => [r.key, r.id, r.text || r.base64 || '']), 'no results');
      results.append(list);
      if (v.error) results.append(el('p', {class: 'problem'}, v.error.error));
      if (v.continue) results.append(el('button', {onclick: () => query(false, v.continue)}, 'Next page'));
      cards.push(took, results);
    }
    out.replaceChildren(...cards);
  } catch (err) { failed($('query-error'), err); out.replaceChildren(); }
}

function next(go) { $('items-next').replaceChildren(...(go ? [el('button', {onclick: go}, 'Next page')] : [])); }

async function listKeys(from) {
  failed($('items-error')); $('item').hidden = true;
  try {
    const v = await ask('api/logical', {name: state.name, from, limit: 50});
    keyTable($('items-out'), v.rows, [['key', 1], ['versions'], ['bytes'], ['partition']], r => [count(r.versions), size(r.bytes), r.partition], 'no items');
    next(v.next && (() => listKeys(v.next)));
  } catch (err) { failed($('items-error'), err); }
}

function showKey(key) { $('items-key').value = key; $('items-from').value = ''; location.hash = '#items'; listItems(); }

async function listItems(from = $('items-from').value) {
  failed($('items-error')); $('item').hidden = true;
  const key = $('items-key').value.trim();
  try {
    const v = await ask('api/items', {name: state.name, key, from, limit: 50});
    table($('items-out'), [['id', 1], ['bytes'], ['modified (UTC)', 1], ['document', 1, 'l doc']], v.rows.map(r => [el('button', {onclick: () => showItem(key, r.id)}, r.id), count(r.bytes), when(r.modified), (r.text || r.base64 || '') + (r.cut ? '…' : '')]), 'no items with this key');
    next(v.next && (() => listItems(v.next)));
  } catch (err) { failed($('items-error'), err); }
}

async function showItem(key, id) {
  try {
    const v = await ask('api/item', {name: state.name, key, id});
    let text = v.text ?? '';
    try { text = JSON.stringify(JSON.parse(text), null, 2); } catch { text = text || v.base64; }
    $('item').hidden = false;
    $('item-title').textContent = id;
    $('item-meta').textContent = `key ${v.key}, ${count(v.bytes)} bytes, etag ${v.etag}, sequence ${v.seq}, written ${when(v.modified)} UTC${v.expires ? ', expires ' + when(v.expires) : ''}, read for ${v.charge.toFixed(1)} RU`;
    $('item-body').textContent = text;
    $('item').scrollIntoView({behavior: still.matches ? 'auto' : 'smooth'});
  } catch (err) { failed($('items-error'), err); }
}

function show() {
  const at = (location.hash || '#live').slice(1);
  for (const s of document.querySelectorAll('main > section')) s.hidden = s.id !== at;
  for (const a of document.querySelectorAll('nav a')) a.hash === '#' + at ? a.setAttribute('aria-current', 'page') : a.removeAttribute('aria-current');
  if (at === 'live') { drawSpace(); drawMovie(); }
  if (at === 'store') containers().catch(() => {});
}

$('cut-form').addEventListener('submit', weigh);
$('query-form').addEventListener('submit', e => { e.preventDefault(); query(false); });
$('query-text').addEventListener('keydown', e => { if (e.key === 'Enter' && (e.ctrlKey || e.metaKey)) { e.preventDefault(); query(false); } });
$('plan-only').addEventListener('click', () => query(true));
$('items-form').addEventListener('submit', e => { e.preventDefault(); listItems(); });
$('list-keys').addEventListener('click', () => listKeys(''));
$('container').addEventListener('change', e => choose(e.target.value));
$('filter').addEventListener('input', () => containers().catch(() => {}));
for (const by of ['heat', 'size']) $('by-' + by).addEventListener('click', () => { state.by = by; $('by-heat').setAttribute('aria-pressed', by === 'heat'); $('by-size').setAttribute('aria-pressed', by === 'size'); drawSpace(); });
addEventListener('hashchange', show);
addEventListener('resize', () => { drawSpace(); drawMovie(); });
show();
(async function loop() {
  if (!document.hidden) await tick();
  setTimeout(loop, Math.min(10000, 1000 * 2 ** Math.min(4, state.fails)));
})();
