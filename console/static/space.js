// The pictures of the key space: its physical partitions now, their load over time, and
// which came from which.
import {$, count, shape, short, size, table, when, withTitle} from './dom.js';

export const still = matchMedia('(prefers-reduced-motion: reduce)');
const dark = matchMedia('(prefers-color-scheme: dark)');
const ramp = [[91, 143, 199], [143, 199, 169], [255, 209, 102], [247, 142, 70], [242, 95, 92]];
function colour(x) {
  x = Math.max(0, Math.min(1, x)) * (ramp.length - 1);
  const i = Math.min(ramp.length - 2, Math.floor(x)), f = x - i;
  return 'rgb(' + ramp[i].map((c, k) => Math.round(c + (ramp[i + 1][k] - c) * f)).join(',') + ')';
}

const high = 132, top = 38, least = 34; // pixels: of the picture, above the tallest partition, of the lowest one
const narrowest = 6; // pixels that a partition has, however few keys it has
const labelled = 62; // pixels that a label inside a partition needs
const name = b => (b.damaged ? '▲ ' : '') + (b.partitions > 1 ? b.partitions + ' parts' : '#' + b.id);
const value = (b, by) => by === 'heat' ? b.hottest_ru_per_s : b.raw_bytes / b.partitions;
const said = (b, by) => b.damaged ? 'damaged' : by === 'heat' ? count(b.hottest_ru_per_s) + ' RU/s' : size(b.raw_bytes);
const described = (b, loaded) => `${b.partitions > 1 ? b.partitions + ' partitions from ' + b.id : 'Partition ' + b.id}: ${short(b.min)} to ${short(b.max)}, ${count(b.documents)} documents at most, ${size(b.raw_bytes)}` +
  (loaded ? `, ${count(b.load_ru_per_s)} RU/s, ${count(b.throttled)} refused` : '') + (b.damaged ? '; damage was met in it, and what cannot be read is not counted' : '');

// Space is the picture of the partitions. pick is called with the block that is chosen and,
// if it was by the pointer, where: from 0 to 1.
export class Space {
  constructor(pick) {
    this.svg = $('space'); this.pick = pick; this.seen = new Set(); this.at = null;
    this.state = {blocks: [], by: 'heat', equal: false, loaded: true, cut: null, parts: 0};
    this.svg.addEventListener('keydown', e => this.key(e));
    this.svg.addEventListener('pointerleave', () => this.tell());
    this.svg.addEventListener('focusout', () => this.tell());
  }
  forget() { this.seen.clear(); this.at = null; this.svg.replaceChildren(); }
  // span returns where a block is drawn, from 0 to 1.
  span(b, i) {
    const n = this.state.blocks.length;
    return this.state.equal ? [i / n, (i + 1) / n] : [b.from, b.to];
  }
  draw(changes = {}) {
    Object.assign(this.state, changes);
    const {blocks, by, loaded, cut} = this.state, svg = this.svg, w = svg.clientWidth;
    if (!w) return; // it cannot be seen
    const most = Math.max(1, ...blocks.map(b => value(b, by))), tallest = Math.max(1, ...blocks.map(b => b.raw_bytes / b.partitions));
    const percent = x => 100 * x + '%'; // so that another width of the window moves nothing
    const old = new Map([...svg.querySelectorAll('rect')].map(r => [r.dataset.id, r])), kept = new Set();
    svg.querySelectorAll('text,line').forEach(e => e.remove());
    const narrow = [];
    blocks.forEach((b, i) => {
      const id = String(b.id), [from, to] = this.span(b, i), wide = (to - from) * w;
      const r = old.get(id) || this.block(id);
      r.block = b; kept.add(r);
      const width = Math.max(to - from, narrowest / w), x = Math.min(from, 1 - width);
      const tall = least + (high - top - least) * (b.raw_bytes / b.partitions) / tallest;
      const text = described(b, loaded);
      for (const [k, v] of Object.entries({x: percent(x), width: percent(width), y: high - tall, height: tall, fill: colour(value(b, by) / most), 'aria-label': text})) if (r.getAttribute(k) !== String(v)) r.setAttribute(k, v);
      r.classList.toggle('narrow', wide < narrowest);
      r.classList.toggle('damaged', !!b.damaged);
      if (wide < narrowest && !old.has(id)) svg.append(r); // above its neighbours
      if (wide < labelled) narrow.push({b, x: (x + width / 2) * w, y: high - tall});
      else {
        svg.append(shape('text', {x: percent(from), dx: 9, y: high - 20}, name(b)));
        svg.append(shape('text', {x: percent(from), dx: 9, y: high - 6}, said(b, by)));
      }
    });
    for (const r of old.values()) if (!kept.has(r)) r.remove();
    for (const b of blocks) this.seen.add(String(b.id));
    this.callOut(narrow, w, by);
    if (cut && !this.state.equal) svg.append(shape('line', {x1: percent(cut.place), x2: percent(cut.place), y1: 0, y2: high}));
    this.rove();
    $('axis').hidden = this.state.equal || !blocks.length;
    $('space-note').textContent = blocks.length ? `${count(this.state.parts)} physical partition${this.state.parts === 1 ? '' : 's'}. The taller, the larger. Choose one to weigh a cut.` : 'no container yet';
    this.tell();
  }
  block(id) {
    const r = shape('rect', {tabindex: -1, role: 'button'});
    r.dataset.id = id;
    r.addEventListener('click', e => { this.at = id; this.rove(); this.pick(r.block, e.offsetX / (this.svg.clientWidth || 1), e.shiftKey); });
    r.addEventListener('pointerenter', () => this.tell(r.block));
    r.addEventListener('focus', () => { this.at = id; this.rove(); this.tell(r.block); });
    if (this.seen.size && !this.seen.has(id) && !still.matches) r.classList.add('born');
    this.svg.insertBefore(r, this.svg.querySelector('rect.narrow'));
    return r;
  }
  // callOut labels the partitions that are too narrow for a label inside, as far as there is
  // room above: first the damaged ones, then those with the highest values. Labels lie above
  // the lines of all.
  callOut(narrow, w, by) {
    const taken = [[], []], lines = [], labels = [];
    for (const {b, x, y} of narrow.sort((a, c) => !!c.b.damaged - !!a.b.damaged || value(c.b, by) - value(a.b, by)).slice(0, 40)) {
      const text = `${name(b)} ${said(b, by)}`, wide = text.length * 6.6 + 8, from = Math.max(0, Math.min(w - wide, x - wide / 2));
      const level = taken.findIndex(t => t.every(([a, z]) => from + wide < a || from > z));
      if (level < 0) continue;
      taken[level].push([from, from + wide]);
      const base = level ? 12 : 27;
      lines.push(shape('line', {class: 'lead', x1: x, x2: x, y1: base + 3, y2: y}));
      labels.push(shape('text', {class: 'out', x: from + 4, y: base}, text));
    }
    this.svg.append(...lines, ...labels);
  }
  // rove leaves one partition in the order of Tab: arrows go to the others.
  rove() {
    const all = [...this.svg.querySelectorAll('rect')];
    if (!all.some(r => r.dataset.id === this.at)) this.at = String(this.state.blocks[0]?.id);
    for (const r of all) { r.setAttribute('tabindex', r.dataset.id === this.at ? 0 : -1); }
  }
  key(e) {
    const r = e.target, list = this.state.blocks, i = list.indexOf(r.block);
    const to = {ArrowLeft: i - 1, ArrowRight: i + 1, Home: 0, End: list.length - 1}[e.key];
    if (e.key === 'Enter' || e.key === ' ') { e.preventDefault(); this.pick(r.block); }
    else if (to !== undefined && list[to]) { e.preventDefault(); [...this.svg.querySelectorAll('rect')].find(x => x.block === list[to])?.focus(); }
  }
  tell(b) {
    b ||= document.activeElement?.block;
    $('space-detail').textContent = b ? described(b, this.state.loaded) : this.state.blocks.length ? 'Point at a partition, or go through them with the arrow keys, for its figures.' : '';
  }
}

export function drawMovie(all) {
  const c = $('movie'), w = c.clientWidth, rows = all.slice(-120), each = 3;
  if (!w) return;
  const h = Math.max(24, rows.length * each), dots = devicePixelRatio || 1, g = c.getContext('2d');
  c.style.height = h + 'px';
  c.width = w * dots; c.height = h * dots;
  g.scale(dots, dots);
  const most = Math.max(1, ...rows.flatMap(r => r.ru));
  rows.toReversed().forEach((r, i) => {
    const y = i * each;
    const blocks = r.from.map((f, k) => [f * w, (k + 1 < r.from.length ? r.from[k + 1] : 1) * w, r.ru[k]]);
    for (const [x, to, ru] of blocks) { g.fillStyle = colour(ru / most); g.fillRect(x, y, to - x + 1, each); }
    g.fillStyle = dark.matches ? '#12161c' : '#fff';
    if (blocks.length <= 64) for (const [x] of blocks.slice(1)) g.fillRect(x - .75, y, 1.5, each);
    // What is narrower than can be seen is drawn wider, and above its neighbours.
    for (const [x, to, ru] of blocks.filter(b => b[1] - b[0] < narrowest).sort((a, b) => a[2] - b[2])) { g.fillStyle = colour(ru / most); g.fillRect(Math.min(x, w - narrowest), y, narrowest, each); }
  });
  $('hottest').textContent = count(most) + ' RU/s';
  const seconds = rows.length > 1 ? (rows.at(-1).t - rows[0].t) / 1000 : 0;
  $('movie-note').textContent = `now at the top, ${seconds < 100 ? count(seconds) + ' s' : count(seconds / 60) + ' minutes'} ago at the bottom; a line is a boundary between partitions`;
}

export function drawHistory(list) {
  const rows = list.slice(-40).toReversed();
  table($('history'), [['when (UTC)', 'l'], ['what', 'l'], ['parents', 'l'], ['children', 'l'], ['boundary', 'l']], rows.map(r => [
    when(r.time), r.kind, r.parents.map(p => p.id).join(' + '), r.children.map(p => p.id).join(' + '), r.children.length > 1 ? withTitle(short(r.children[1].min), r.children[1].min) : '–']), 'no physical partition was split yet');
  const svg = $('tree'), w = svg.clientWidth, level = 20;
  if (!w) return;
  const place = hex => hex === 'FF' ? 1 : Number(BigInt('0x' + (hex + '0'.repeat(16)).slice(0, 16))) / 2 ** 62;
  const depth = new Map(), boxes = [], gone = new Set(list.flatMap(r => r.parents.map(p => p.id)));
  for (const r of list) {
    for (const p of r.parents) if (!depth.has(p.id)) { depth.set(p.id, 0); boxes.push([p, 0]); }
    const d = 1 + Math.max(...r.parents.map(p => depth.get(p.id)));
    for (const p of r.children) { depth.set(p.id, d); boxes.push([p, d]); }
  }
  const deepest = Math.max(0, ...boxes.map(b => b[1]));
  svg.replaceChildren();
  svg.setAttribute('height', boxes.length ? (deepest + 1) * level : 0);
  for (const [p, d] of boxes) {
    if (!p.max) continue;
    const x = place(p.min) * w, width = Math.max(3, place(p.max) * w - x), now = gone.has(p.id) ? '' : 'now';
    const r = shape('rect', {x: Math.min(x, w - width), y: d * level, width, height: level - 2, rx: 2, class: now});
    r.append(shape('title', {}, `partition ${p.id}: ${short(p.min)} to ${short(p.max)}`));
    svg.append(r);
    if (width > 24) svg.append(shape('text', {x: x + 4, y: d * level + 13, class: now}, p.id));
  }
}
