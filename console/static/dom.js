// How the page is built and numbers are written. All that comes from the store is put in as
// text, never as HTML.
export const $ = id => document.getElementById(id);

export function el(tag, attrs = {}, ...kids) {
  const e = document.createElement(tag);
  for (const [k, v] of Object.entries(attrs)) k === 'onclick' ? e.onclick = v : e.setAttribute(k, v);
  e.append(...kids.map(k => k instanceof Node ? k : document.createTextNode(String(k))));
  return e;
}

export function shape(tag, attrs, text) {
  const e = document.createElementNS('http://www.w3.org/2000/svg', tag);
  for (const [k, v] of Object.entries(attrs)) e.setAttribute(k, v);
  if (text !== undefined) e.textContent = text;
  return e;
}

export const count = n => Number(n || 0).toLocaleString('en', {maximumFractionDigits: n < 10 ? 1 : 0});
export const size = n => { let u = 0; n = Number(n || 0); while (n >= 999.5 && u < 4) { n /= 1024; u++; } return n.toLocaleString('en', {maximumSignificantDigits: 3}) + ' ' + ['B', 'KiB', 'MiB', 'GiB', 'TiB'][u]; };
export const when = t => t ? new Date(t).toISOString().replace('T', ' ').slice(0, 19) : '–';
export const span = ns => !ns ? '0' : ns < 1e3 ? '<1 µs' : ns < 1e6 ? (ns / 1e3).toFixed(0) + ' µs' : ns < 1e9 ? (ns / 1e6).toFixed(1) + ' ms' : (ns / 1e9).toFixed(1) + ' s';
export const short = epk => epk === '' ? '00' : epk.length > 8 ? epk.slice(0, 8) + '…' : epk;
export const share = (v, of) => { const p = 100 * v / (of || 1); return (p >= 10 || p === 0 ? p.toFixed(0) : p >= .01 ? p.toPrecision(2) : '<0.01') + ' %'; };

// update replaces what a place shows, but keeps the elements that have not changed: so what
// has the focus, or is selected, stays so while the figures around it go on.
function update(old, now) {
  if (old.isEqualNode(now)) { handlers(old, now); return; }
  const same = old.nodeType === now.nodeType && old.nodeName === now.nodeName;
  if (!same || !old.childNodes.length || old.childNodes.length !== now.childNodes.length) {
    if (same && old.nodeType === Node.TEXT_NODE) old.data = now.data;
    else if (same && old.nodeName === 'TBODY') rows(old, now);
    else old.replaceWith(now);
    return;
  }
  for (const a of [...old.attributes]) if (!now.hasAttribute(a.name)) old.removeAttribute(a.name);
  for (const a of [...now.attributes]) if (old.getAttribute(a.name) !== a.value) old.setAttribute(a.name, a.value);
  old.onclick = now.onclick;
  const kids = [...now.childNodes];
  [...old.childNodes].forEach((k, i) => update(k, kids[i]));
}
function rows(old, now) {
  const kids = [...now.children];
  while (old.children.length > kids.length) old.lastChild.remove();
  kids.forEach((k, i) => old.children[i] ? update(old.children[i], k) : old.append(k));
}
function handlers(old, now) {
  if (old.nodeType !== Node.ELEMENT_NODE) return;
  old.onclick = now.onclick;
  [...old.children].forEach((k, i) => handlers(k, now.children[i]));
}
export function fill(place, ...now) {
  if (place.childNodes.length !== now.length) place.replaceChildren(...now);
  else now.forEach((n, i) => update(place.childNodes[i], n));
}

// table fills a place with a table. A head is [title, how, what it means]: how is '' for
// numbers, 'l' for text, 'doc' for long text that is cut off, 'wrap' for text in lines.
export function table(place, heads, rows, empty = 'none') {
  if (!rows.length) { fill(place, el('p', {class: 'muted'}, empty)); return; }
  const cell = h => h[1] ? {class: h[1] === 'doc' ? 'l doc' : h[1] === 'wrap' ? 'l wrap' : 'l'} : {};
  fill(place, el('table', {},
    el('thead', {}, el('tr', {}, ...heads.map(h => el('th', {scope: 'col', ...cell(h), ...(h[2] ? {title: h[2]} : {})}, h[0])))),
    el('tbody', {}, ...rows.map(row => el('tr', {}, ...row.map((c, i) => el('td', cell(heads[i]), c)))))));
}
export const facts = (place, list) => fill(place, el('dl', {}, ...list.flatMap(([k, v, about]) => [el('dt', about ? {title: about} : {}, k), el('dd', {}, v)])));
export const bar = (v, most, label) => el('span', {class: 'bar'}, el('meter', {min: 0, max: most || 1, value: v, 'aria-label': label}), ' ' + share(v, most));
export const withTitle = (text, title) => el('span', {title}, text);
