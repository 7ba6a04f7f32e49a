package chromium

import (
	"context"
	"strings"
)

// Do does one thing on the page. After "click " it clicks what a CSS selector finds, after
// "type " it types a text, after "press " it presses a key, after "do " it evaluates an
// expression; else it waits until the expression is true.
func (p *Page) Do(ctx context.Context, step string) error {
	if selector, ok := strings.CutPrefix(step, "click "); ok {
		return p.Click(ctx, selector)
	} else if text, ok := strings.CutPrefix(step, "type "); ok {
		return p.Type(ctx, text)
	} else if key, ok := strings.CutPrefix(step, "press "); ok {
		return p.Press(ctx, key)
	} else if script, ok := strings.CutPrefix(step, "do "); ok {
		return p.Eval(ctx, script, nil)
	}
	return p.Wait(ctx, step)
}

// Wrong returns what is wrong with the page as it is for people: what sticks out to the side,
// text that is hard to read, controls without a name, ids that are not one element's.
func (p *Page) Wrong(ctx context.Context) (wrong []string, err error) {
	return wrong, p.Eval(ctx, audit, &wrong)
}

const audit = `(() => {
  const wrong = [], seen = new Set();
  if (document.documentElement.scrollWidth > innerWidth) wrong.push('the page is ' + document.documentElement.scrollWidth + ' wide');
  const channels = c => { const n = c.match(/[\d.]+/g).map(Number); return n.length > 3 ? n : [...n, 1]; };
  const light = c => { const [r, g, b] = c.map(v => (v /= 255) <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4); return .2126 * r + .7152 * g + .0722 * b; };
  const behind = e => { for (; e; e = e.parentElement) { const c = channels(getComputedStyle(e).backgroundColor); if (c[3] > .99) return c; } return [255, 255, 255, 1]; };
  for (const e of document.body.querySelectorAll('*')) {
    if (!e.checkVisibility() || e.closest('svg') || e.disabled) continue;
    if (e.matches('button,input,select,textarea') && !(e.labels?.[0]?.innerText || e.getAttribute('aria-label') || e.matches('button') && e.innerText).trim()) wrong.push('no name: ' + e.outerHTML);
    if (![...e.childNodes].some(n => n.nodeType === 3 && n.data.trim())) continue;
    const text = light(channels(getComputedStyle(e).color)), ground = light(behind(e)), ratio = (Math.max(text, ground) + .05) / (Math.min(text, ground) + .05);
    const name = e.tagName + '.' + e.className;
    if (ratio < 4.5 && !seen.has(name)) { seen.add(name); wrong.push('contrast ' + ratio.toFixed(2) + ': ' + name + ' ' + e.textContent.trim().slice(0, 30)); }
  }
  const ids = [...document.querySelectorAll('[id]')].map(e => e.id);
  if (new Set(ids).size !== ids.length) wrong.push('two elements have one id');
  return wrong;
})()`
