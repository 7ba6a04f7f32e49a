// The page asks for news once a second while it can be seen. All that comes from the store
// is put in as text, never as HTML.
import {$, bar, count, el, facts, fill, shape, share, short, size, span, table, when, withTitle} from './dom.js';
import {Space, drawHistory, drawMovie, still} from './space.js';

const state = {name: '', series: [], rows: [], since: 0, rowsSince: 0, event: 0, events: [], can: {}, loaded: true, history: [], offset: 0, fails: 0, keysAt: 0, again: 0};
const space = new Space((b, at, shift) => {
  $('cut-id').value = b.id;
  // with Shift: the place under the pointer
  $('cut-at').value = shift && at > b.from && at < b.to ? BigInt(Math.floor(at * 2 ** 52) * 1024).toString(16).toUpperCase().padStart(16, '0') : '';
  weigh();
});

async function ask(path, query = {}, post) {
  const params = new URLSearchParams(Object.entries(query).filter(([, v]) => v !== undefined && v !== ''));
  const r = await fetch(path + (post ? '' : '?' + params), post ? {method: 'POST', headers: {'Content-Type': 'application/json'}, body: JSON.stringify(post)} : {});
  let body;
  try { body = await r.json(); } catch { throw new Error('the answer of ' + path + ' is not JSON (status ' + r.status + ')'); }
  if (!r.ok) throw Object.assign(new Error(body.error || 'status ' + r.status), body);
  return body;
}

function tiles(v) {
  const s = state.series, last = s.at(-1) || {}, loaded = state.loaded;
  const list = [
    ...loaded ? [
      ['reads', count(last.reads_per_s) + '/s', 'reads_per_s'], ['writes', count(last.writes_per_s) + '/s', 'writes_per_s'],
      ['read, p99', last.read_p99_ns ? span(last.read_p99_ns) : '–', 'read_p99_ns'], ['write, p99', last.write_p99_ns ? span(last.write_p99_ns) : '–', 'write_p99_ns'],
      ['load', count(v.total.load_ru_per_s) + ' RU/s', 'load_ru_per_s'], ['refused (429)', count(last.throttled_per_s) + '/s', 'throttled_per_s', last.throttled_per_s > 0],
      ['stalls', count(last.stalls_per_s) + '/s', 'stalls_per_s', last.stalls_per_s > 0],
    ] : [],
    ['documents', '≤ ' + count(v.total.documents)], ['in files', size(v.total.file_bytes)], ...loaded ? [['write buffers', size(v.stats.buffer_bytes)]] : [], ['partitions', count(v.physical_partitions)],
  ];
  $('tiles').replaceChildren(...list.map(([name, value, key, alarm]) => {
    const t = el('div', {class: 'tile' + (alarm ? ' alarm' : '')}, el('span', {class: 'muted'}, name), el('b', {}, (alarm ? '▲ ' : '') + value));
    if (key && s.length > 1) {
      const most = Math.max(1, ...s.map(p => p[key])), w = s.length - 1;
      const svg = shape('svg', {viewBox: `0 0 ${w} 24`, preserveAspectRatio: 'none', 'aria-hidden': 'true'});
      svg.append(shape('path', {d: 'M' + s.map((p, i) => i + ' ' + (23 - 22 * p[key] / most).toFixed(1)).join('L')}));
      t.append(svg);
    }
    return t;
  }));
}

async function weigh(e) {
  e?.preventDefault();
  const out = $('cut-out');
  try {
    const v = await ask('api/cut', {name: state.name, partition: $('cut-id').value, at: $('cut-at').value.trim()});
    space.draw({cut: v});
    state.weighed = v.partition;
    const balance = (l, r) => { const i = el('i'), b = el('div', {class: 'balance', role: 'img', 'aria-label': share(l, l + r) + ' on the left'}, i); i.style.width = 100 * l / (l + r || 1) + '%'; return b; };
    out.replaceChildren(el('p', {}, `Partition ${v.partition}, cut at `, withTitle(short(v.at), v.at), ':'),
      el('div', {class: 'muted'}, `bytes: ${size(v.left_bytes)} left, ${size(v.right_bytes)} right`), balance(v.left_bytes, v.right_bytes));
    if (state.loaded) out.append(el('div', {class: 'muted'}, `load, estimated: ${count(v.left_ru_per_s)} RU/s left, ${count(v.right_ru_per_s)} RU/s right`), balance(v.left_ru_per_s, v.right_ru_per_s));
    if (state.can.split) {
      const answer = el('span', {role: 'status'});
      const go = async () => {
        button.disabled = true;
        try { await split(v); answer.textContent = 'The split is queued.'; } catch (err) { answer.textContent = err.message; answer.className = 'problem'; }
      };
      const button = el('button', {onclick: () => { button.textContent = `Really split partition ${v.partition}`; button.className = 'danger'; button.onclick = go; }}, 'Split here');
      out.append(el('div', {class: 'row'}, button, answer));
    }
  } catch (err) { space.draw({cut: null}); out.replaceChildren(el('p', {class: 'problem'}, err.message)); }
}
// unweighed empties the place of a cut, and says why or what it is for.
function unweighed(text) {
  state.weighed = null;
  space.draw({cut: null});
  $('cut-id').value = $('cut-at').value = '';
  $('cut-out').replaceChildren(el('p', {class: 'muted', role: 'status'}, text));
}
const split = v => ask('api/split', {}, {name: state.name, partition: v.partition, at: v.at});

const cutShort = s => s.length > 40 ? s.slice(0, 40) + '…' : s;
const keyButton = key => el('button', {onclick: () => showKey(key), title: key}, cutShort(key));

async function keys() {
  const v = await ask('api/keys', {name: state.name});
  const name = r => keyButton(r.key);
  if (state.loaded) table($('hot'), [['key', 'l'], ['RU/s'], ['ops/s'], ['partition']], v.hot.map(r => [name(r), count(r.ru_per_s), count(r.ops_per_s), r.partition]), 'no load of late');
  $('refused-card').hidden = !v.limited;
  table($('refused'), [['key', 'l'], ['refused', '', 'calls that failed with ErrThrottled'], ['limit'], ['consumed'], ['admits in', '', 'until the next call is admitted'], ['counted since (UTC)', 'l']], v.refused.map(r => [name(r), count(r.refused), count(r.limit_ru_per_s) + ' RU/s', count(r.consumed_ru) + ' RU', span(r.wait_ns), when(r.since)]), 'no call was refused for the limit of its key');
  table($('largest'), [['key', 'l'], ['bytes'], ['of the limit', 'l'], ['versions'], ['partition']], v.largest.map(r => [name(r), size(r.bytes), bar(r.bytes, v.limit, 'share of the limit'), count(r.versions), r.partition]), v.partial && !v.problem ? 'looking' : 'none');
  $('largest-note').textContent = v.problem ? `among the first ${count(v.looked)}: ${v.problem}` : v.partial && v.largest.length ? `among the first ${count(v.looked)}: the time did not suffice for more` : '';
}

function storePart(v) {
  const s = v.stats;
  table($('latency'), [['call', 'l'], ['calls/s'], ['mean'], ['p50'], ['p99'], ['p99.9'], ['longest', '', 'since the store was opened']], v.latency.map(l => [l.call, count(l.calls_per_s), span(l.mean_ns), span(l.p50_ns), span(l.p99_ns), span(l.p999_ns), span(l.max_ns)]), 'no call of late');
  $('latency-note').textContent = v.latency.length ? `calls of the last ${count(v.latency_seconds)} s` : '';
  facts($('memory'), [['budget', size(s.memory_budget_bytes)], ['write buffers', size(s.buffer_bytes), 'what writes have put into memtables'], ['indexes of write buffers', size(s.index_bytes)], ['reserved for write buffers', size(s.held_bytes), 'taken from the system'], ['decoded documents', size(s.hot_bytes), 'of documents that are read often'], ['stalls', `${count(s.stalls)}, ${span(s.stalled_ns)} in all`, 'writes that waited for memory']]);
  facts($('disk'), [['documents', size(v.total.raw_bytes)], ['files', size(v.total.file_bytes)], ['dead versions', count(v.total.dead), 'that a compaction drops'], ['pinned old files', size(s.obsolete_bytes), 'that readers still use'], ['log', size(s.log.bytes ?? s.log.Bytes)], ['flushes', count(s.flushes)], ['compactions', count(s.compactions)], ['open files', `${count(s.open_files)} of ${count(s.max_open_files)}`], ['mapped files', `${count(s.mapped_files)} of ${count(s.max_mapped_files)}`], ['cold reads', `${count(s.cold_reads)}, ${span(s.cold_wait_ns)} in all`, 'of pages that were not known to be in memory'], ['background errors', count(s.background_errors)], ['read errors', count(s.read_errors)], ['last sequence', count(s.last_seq)], ['directory', v.dir]]);
  table($('jobs'), [['job', 'l'], ['container', 'l'], ['state', 'l'], ['progress', 'l']], v.jobs.map(j => [j.kind + (j.parents ? ' of ' + j.parents.join(', ') : ''), j.container, j.phase || (j.pass ? 'pass ' + j.pass : 'running'), j.total ? bar(j.done || 0, j.total, `${j.done || 0} of ${j.total}`) : '–']), 'no job');
  table($('holders'), [['what', 'l'], ['count'], ['since (UTC)', 'l']], (s.holders || []).map(h => [h.what + (h.container ? ' of ' + h.container : ''), count(h.count), when(h.since)]), 'nothing');
  table($('feeds'), [['container', 'l'], ['scope', 'l'], ['shown'], ['behind', '', 'in sequences of the store'], ['lag']], (s.feeds || []).map(f => [f.container, f.scope, count(f.shown), count(f.behind_sequences), span(f.lag_ns)]), 'no feed runs');
  const damage = s.damage || [];
  $('damage-head').textContent = damage.length ? `▲ Damage (${count(damage.length)})` : 'Damage';
  $('damage-card').classList.toggle('alarm', damage.length > 0);
  table($('damage'), [['container', 'l'], ['partition'], ['what', 'wrap']], damage.map(d => [d.container, d.partition || '–', d.error]), 'none met');
  table($('events'), [['when (UTC)', 'l'], ['what', 'l'], ['container', 'l'], ['', 'wrap']], state.events.slice(-60).toReversed().map(e => [when(e.t), e.kind, e.container || '', e.text]), v.events_recorded ? 'nothing yet' : 'Not recorded: a program that mounts this page hands over console.Events.');
}

async function containers() {
  const v = await ask('api/containers', {filter: $('filter').value, limit: 100, sort: 'load'});
  table($('containers'), [['name', 'l'], ['partition key', 'l'], ['partitions'], ['documents ≤'], ['size'], ['RU/s'], ['refused']], v.rows.map(c => [el('button', {onclick: () => { choose(c.name); location.hash = '#live'; }, title: c.name}, cutShort(c.name)), c.partition_key, count(c.physical_partitions), count(c.documents), size(c.raw_bytes), state.loaded ? count(c.load_ru_per_s) : '–', count(c.throttled)]), $('filter').value ? 'no container has this in its name' : 'no container yet');
  $('containers-note').textContent = v.total > v.rows.length ? `${count(v.rows.length)} of ${count(v.total)}: filter for others` : '';
}

async function names() {
  const v = await ask('api/containers', {limit: 500}), s = $('container');
  const list = v.rows.map(c => c.name);
  if (state.name && v.total === list.length && !list.includes(state.name)) choose(list[0] || ''); // it was dropped
  else if (state.name && !list.includes(state.name)) list.push(state.name);
  if (list.join('\n') !== [...s.options].map(o => o.value).join('\n')) s.replaceChildren(...list.map(n => el('option', {value: n}, n)));
  if (!state.name && list.length) choose(v.rows.reduce((a, b) => (b.load_ru_per_s - a.load_ru_per_s || b.raw_bytes - a.raw_bytes) > 0 ? b : a).name); // the one with the most to see
  s.value = state.name;
  s.disabled = !list.length;
}

function choose(name) {
  Object.assign(state, {name, rows: [], rowsSince: 0, keysAt: 0, offset: 0, history: []});
  space.forget();
  space.draw({blocks: [], parts: 0});
  for (const id of ['query-out', 'items-out', 'items-next']) $(id).replaceChildren();
  unweighed('Choose a partition: this says what each side would hold. A click with Shift takes the place under the pointer.');
  $('item').hidden = true;
  state.again++; // the answers for another container are not shown
  $('query-out').removeAttribute('aria-busy'); $('query-state').textContent = '';
}

const pageOfParts = 20;
async function partitions() {
  const name = state.name, p = await ask('api/partitions', {name, sort: $('parts-sort').value, offset: state.offset, limit: pageOfParts});
  if (name !== state.name) return;
  const spent = r => r.throughput_ru_per_s ? bar(r.heat_ru_per_s, r.throughput_ru_per_s, 'share of the throughput') : '–';
  table($('parts'), [['id', 'l'], ['from', 'l'], ['to', 'l'], ['documents ≤'], ['size'], ...state.loaded ? [['RU/s'], ['of the limit', 'l', 'of the throughput of the partition'], ['refused']] : [], ['runs'], ['dead', '', 'versions that a compaction drops']], p.rows.map(r => [
    el('button', {title: 'weigh a cut', onclick: () => { $('cut-id').value = r.id; $('cut-at').value = ''; weigh(); }}, r.damaged ? '▲ ' + r.id + ' damaged' : r.id), withTitle(short(r.min), r.min || '00'), withTitle(short(r.max), r.max), count(r.documents), size(r.raw_bytes), ...state.loaded ? [count(r.heat_ru_per_s), spent(r), count(r.throttled)] : [], r.runs, count(r.dead)]));
  const more = p.total > state.offset + p.rows.length, turn = by => () => { state.offset = Math.max(0, state.offset + by); partitions().catch(() => {}); };
  $('parts-note').textContent = p.total > pageOfParts ? `${count(state.offset + 1)} to ${count(state.offset + p.rows.length)} of ${count(p.total)}` : '';
  fill($('parts-turn'), ...(p.total > pageOfParts ? [el('button', {onclick: turn(-pageOfParts), ...(state.offset ? {} : {disabled: ''})}, 'Previous'), el('button', {onclick: turn(pageOfParts), ...(more ? {} : {disabled: ''})}, 'Next')] : []));
}

async function live() {
  const name = state.name, c = await ask('api/container', {name, since: state.rowsSince});
  if (name !== state.name) return;
  state.rows = state.rows.concat(c.rows.filter(r => r.t > state.rowsSince)).slice(-240);
  state.rowsSince = state.rows.at(-1)?.t || 0;
  state.history = c.history || [];
  space.draw({blocks: c.blocks || [], parts: c.physical_partitions, loaded: state.loaded});
  drawMovie(state.rows); drawHistory(state.history);
  const blocks = c.blocks || [];
  if (state.weighed && blocks.length === c.physical_partitions && !blocks.some(b => b.id === state.weighed)) {
    unweighed(`Partition ${state.weighed} is not there any more: it was split or merged.`);
    state.keysAt = 0; // their partitions are others
  }
  await partitions();
  if (Date.now() - state.keysAt > 3000) {
    state.keysAt = Date.now();
    try { await keys(); } catch (err) { if (err.kind === 'closed') throw err; $('largest-note').textContent = err.message; }
  }
}

// panels shows the tables of the program that serves the page.
async function panels() {
  const v = state.can.panels ? await ask('api/panels') : [], place = $('panels');
  if (place.childElementCount !== v.length) place.replaceChildren(...v.map(p => el('div', {class: 'card'}, el('h2', {}, p.title), el('div', {class: 'scroll', role: 'region', 'aria-label': p.title, tabindex: 0}))));
  v.forEach((p, i) => {
    place.children[i].firstChild.textContent = p.total > p.rows.length ? `${p.title} (the first ${p.rows.length} of ${count(p.total)})` : p.title;
    table(place.children[i].lastChild, p.heads.map(h => [h, 'l']), p.rows, p.empty);
  });
}

async function tick() {
  try {
    const v = await ask('api/store', {since: state.since, event: state.event});
    state.series = state.series.concat(v.series.filter(p => p.t > state.since)).slice(-240);
    state.since = state.series.at(-1)?.t || 0;
    state.events = state.events.concat(v.events.filter(e => e.number > state.event)).slice(-500);
    state.event = state.events.at(-1)?.number || 0;
    state.can = v.can;
    if (state.loaded === (v.state === 'read-only')) { // it has no load of its own
      state.loaded = !state.loaded;
      document.body.classList.toggle('at-rest', !state.loaded);
      colourBy(state.loaded ? 'heat' : 'size');
      $('parts-sort').value = state.loaded ? 'load' : 'key';
    }
    document.body.classList.toggle('no-documents', !v.can.documents);
    document.title = v.title + ' – Cleave';
    $('title').textContent = v.title;
    $('state').textContent = v.state; $('state').className = 'pill ' + v.state;
    const damage = (v.stats.damage || []).length;
    const problem = [v.state === 'closed' ? 'The store is closed. These are the last figures.' : v.problem || '', damage ? `Damage was met in ${count(damage)} ${damage === 1 ? 'place' : 'places'}: the part Store names ${damage === 1 ? 'it' : 'them'}.` : ''].filter(p => p).join('\n');
    $('problem').hidden = !problem;
    if ($('problem').textContent !== problem) $('problem').textContent = problem;
    tiles(v); storePart(v);
    if (v.state === 'closed') { state.fails = 0; return; }
    await panels();
    await names();
    if (state.name) await live();
    else space.draw({blocks: []});
    if (location.hash === '#store') await containers();
    state.fails = 0;
  } catch (err) {
    state.fails++;
    const gone = err instanceof TypeError; // of fetch: nobody answers
    $('state').textContent = err.kind === 'closed' ? 'closed' : gone ? 'no connection' : 'error'; $('state').className = 'pill lost';
    $('problem').hidden = false;
    const text = gone ? 'The program that serves this page does not answer. These are the last figures.' : err.message;
    if ($('problem').textContent !== text) $('problem').textContent = text;
  }
}

function failed(place, err) { place.hidden = !err; place.textContent = err ? err.message : ''; }

// where shows the line of a query in which it is wrong, with a mark below the place.
function where(text, err) {
  if (!err.line) return '';
  const line = text.split('\n')[err.line - 1] ?? '', from = Math.max(0, err.column - 30);
  return '\n\n' + line.slice(from, from + 60) + '\n' + ' '.repeat(err.column - 1 - from) + '^';
}

async function query(planOnly, more) {
  const out = $('query-out'), text = $('query-text').value;
  failed($('query-error'));
  const turn = ++state.again;
  out.setAttribute('aria-busy', 'true'); $('query-state').textContent = 'running…';
  try {
    if (!state.name) throw new Error('This store has no container yet.');
    let parameters = {};
    try { parameters = JSON.parse($('query-parameters').value.trim() || '{}'); } catch { throw new Error('The parameters are no JSON object such as {"@least": 3}.'); }
    const v = await ask('api/query', {}, {name: state.name, query: text, parameters, key: $('query-key').value.trim(), continue: more || '', plan_only: planOnly});
    if (turn !== state.again) return;
    const plan = el('div', {class: 'card'}, el('h2', {}, 'Plan')), facted = el('div'), parts = el('div', {class: 'scroll'});
    facts(facted, [['where', v.plan.scope], ['filter', v.plan.filter], ['documents', v.plan.method], ['order', v.plan.order], ['charge, estimated', count(v.plan.charge) + ' RU']]);
    table(parts, [['partition'], ['versions'], ['runs'], ['candidates', 'l', 'of indexes, beside all versions']], v.plan.partitions.map(p => [p.id, count(p.versions), p.runs, p.no_index ? 'no index: read one by one' : el('span', {}, count(p.candidates) + ' ', bar(p.candidates, p.versions, 'share of the versions'))]));
    plan.append(facted);
    if (v.plan.suggest?.length) plan.append(el('p', {class: 'advice'}, `An index would help: include ${v.plan.suggest.join(', ')}. Then: ${v.plan.suggested}.`));
    plan.append(el('details', planOnly ? {open: ''} : {}, el('summary', {}, v.plan_partitions > v.plan.partitions.length ? `The first ${v.plan.partitions.length} of ${count(v.plan_partitions)} partitions` : `By partition (${count(v.plan_partitions)})`), parts));
    const cards = [plan];
    if (v.ran) {
      const took = el('div', {class: 'card'}, el('h2', {}, 'What it took')), f = el('div'), s = v.stats;
      const of = n => el('span', {}, count(n) + ' ', bar(n, Math.max(s.documents, s.candidates, s.matched), 'compared with the others'));
      facts(f, [['results', count(s.results)], ['matched', of(s.matched)], ['candidates of indexes', of(s.candidates)], ['documents read', of(s.documents)], ['bytes of them', size(s.bytes)], ['partitions', count(s.partitions)], ['charge', s.charge.toLocaleString('en', {maximumFractionDigits: 1}) + ' RU'], ['duration', v.elapsed_ms.toFixed(1) + ' ms']]);
      took.append(f);
      const results = el('div', {class: 'card wide'}, el('h2', {}, 'Results')), list = el('div', {class: 'scroll'});
      table(list, [['key', 'l'], ['id', 'l'], ['result', 'doc']], v.rows.map(r => [r.key, r.key && r.id ? el('button', {onclick: () => { $('items-key').value = r.key; location.hash = '#items'; showItem(r.key, r.id); }}, r.id) : r.id, r.text || r.base64 || '']), 'no results');
      results.append(list);
      if (v.error) results.append(el('p', {class: 'problem', role: 'alert'}, 'The results are not complete: ' + v.error.error));
      if (v.continue) results.append(el('div', {class: 'row'}, el('button', {onclick: () => query(false, v.continue)}, 'Next page')));
      cards.push(took, results);
    }
    out.replaceChildren(...cards);
  } catch (err) {
    if (turn !== state.again) return;
    failed($('query-error'), {message: err.message + where(text, err)}); out.replaceChildren();
  } finally {
    if (turn === state.again) { out.removeAttribute('aria-busy'); $('query-state').textContent = ''; }
  }
}

function next(go) { $('items-next').replaceChildren(...(go ? [el('button', {onclick: go}, 'Next page')] : [])); }

async function listKeys(from) {
  failed($('items-error')); $('item').hidden = true;
  try {
    if (!state.name) throw new Error('This store has no container yet.');
    const v = await ask('api/logical', {name: state.name, from, limit: 50});
    table($('items-out'), [['key', 'l'], ['versions'], ['bytes'], ['partition']], v.rows.map(r => [keyButton(r.key), count(r.versions), size(r.bytes), r.partition]), 'This container has no items.');
    next(v.next && (() => listKeys(v.next)));
  } catch (err) { failed($('items-error'), err); }
}

function showKey(key) { if (!state.can.documents) return; $('items-key').value = key; $('items-from').value = ''; location.hash = '#items'; listItems(); }

async function listItems(from = $('items-from').value) {
  failed($('items-error')); $('item').hidden = true;
  const key = $('items-key').value.trim();
  if (!key) return listKeys('');
  try {
    const v = await ask('api/items', {name: state.name, key, from, limit: 50});
    table($('items-out'), [['id', 'l'], ['document', 'doc'], ['bytes'], ['modified (UTC)', 'l']], v.rows.map(r => [el('button', {title: r.id, onclick: () => showItem(key, r.id)}, cutShort(r.id)), (r.text || r.base64 || '') + (r.cut ? '…' : ''), count(r.bytes), when(r.modified)]), 'no items with this key');
    next(v.next && (() => listItems(v.next)));
  } catch (err) { failed($('items-error'), err); $('items-out').replaceChildren(); next(); }
}

// laidOut returns a document with a line for each member, or as it is if JavaScript would make another one of it: numbers
// that it cannot hold, names that it puts in another order.
function laidOut(text) {
  try {
    const v = JSON.parse(text), tight = text.replace(/("(?:[^"\\]|\\.)*")|\s+/g, (_, string) => string ?? '');
    return JSON.stringify(v) === tight ? JSON.stringify(v, null, 2) : text;
  } catch { return text; }
}

async function showItem(key, id) {
  failed($('items-error'));
  try {
    const v = await ask('api/item', {name: state.name, key, id});
    const text = v.text ? laidOut(v.text) : v.base64 ?? '';
    $('item').hidden = false;
    $('item-title').textContent = id;
    $('item-meta').textContent = `key ${v.key}, ${count(v.bytes)} bytes, etag ${v.etag}, sequence ${v.seq}, written ${when(v.modified)} UTC${v.expires ? ', expires ' + when(v.expires) : ''}, read for ${v.charge.toFixed(1)} RU`;
    $('item-body').textContent = text;
    $('item-title').focus({preventScroll: true});
    $('item').scrollIntoView({behavior: still.matches ? 'auto' : 'smooth', block: 'nearest'});
  } catch (err) { failed($('items-error'), err); }
}

function show() {
  let at = (location.hash || '#live').slice(1);
  if (![...document.querySelectorAll('main > section')].some(s => s.id === at)) at = 'live';
  for (const s of document.querySelectorAll('main > section')) s.hidden = s.id !== at;
  for (const a of document.querySelectorAll('nav a')) a.hash === '#' + at ? a.setAttribute('aria-current', 'page') : a.removeAttribute('aria-current');
  if (at === 'live') redraw();
  if (at === 'store') containers().catch(() => {});
  if (at === 'items' && state.name && !$('items-out').firstChild && !$('items-key').value) listKeys('');
}
function redraw() { space.draw(); drawMovie(state.rows); drawHistory(state.history); }
function press(group, id) { for (const b of document.querySelectorAll(`#${group} button`)) b.setAttribute('aria-pressed', b.id === id); }
function colourBy(by) { press('by', 'by-' + by); space.draw({by}); }
function wide(equal) { press('wide', equal ? 'wide-equal' : 'wide-keys'); space.draw({equal}); }

$('cut-form').addEventListener('submit', weigh);
$('query-form').addEventListener('submit', e => { e.preventDefault(); query(false); });
$('query-text').addEventListener('keydown', e => { if (e.key === 'Enter' && (e.ctrlKey || e.metaKey)) { e.preventDefault(); query(false); } });
$('plan-only').addEventListener('click', () => query(true));
$('items-form').addEventListener('submit', e => { e.preventDefault(); listItems(); });
$('list-keys').addEventListener('click', () => { $('items-key').value = ''; listKeys(''); });
$('item-close').addEventListener('click', () => { $('item').hidden = true; $('items-out').querySelector('button')?.focus(); });
$('container').addEventListener('change', e => { choose(e.target.value); tick(); });
$('filter').addEventListener('input', () => containers().catch(() => {}));
$('parts-sort').addEventListener('change', () => { state.offset = 0; partitions().catch(() => {}); });
for (const by of ['heat', 'size']) $('by-' + by).addEventListener('click', () => colourBy(by));
$('wide-keys').addEventListener('click', () => wide(false));
$('wide-equal').addEventListener('click', () => wide(true));
addEventListener('hashchange', show);
addEventListener('resize', redraw);
show();
(async function loop() {
  if (!document.hidden) await tick();
  setTimeout(loop, Math.min(10000, 1000 * 2 ** Math.min(4, state.fails)));
})();
