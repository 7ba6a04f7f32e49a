package main

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cleavestore/cleave/internal/chromium"
)

// TestReportPageInBrowser points at a picture of a run with a split, drags over a part of
// the time and hides a line, and looks for what sticks out at three widths.
func TestReportPageInBrowser(t *testing.T) {
	path := chromium.Find()
	if path == "" {
		t.Skip("no Chromium is installed")
	}
	s := newEngineSession(t)
	file := filepath.Join(t.TempDir(), "a <b> & c.html")
	recordedRun(t, s, "--rate", "500", "--duration", "3s", "--split-at", "1s", "--report", file)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	b, err := chromium.Start(t.Context(), path)
	must(t, err)
	p, err := b.Open(ctx, chromium.View{Width: 1600, Height: 900})
	must(t, err)
	must(t, p.Go(ctx, "file://"+strings.NewReplacer(" ", "%20", "<", "%3C", ">", "%3E", "&", "%26").Replace(filepath.ToSlash(file))))
	must(t, p.Wait(ctx, `document.readyState === 'complete' && document.querySelectorAll('figure').length > 5`))
	// at finds the picture of response times that is shown, and places in it by parts.
	const at = `const svg = [...document.querySelectorAll('svg[data-zoom]')].filter(s => s.checkVisibility())[1];
		svg.scrollIntoView({block: 'center', behavior: 'instant'});
		const box = svg.getBoundingClientRect(), view = svg.viewBox.baseVal, number = n => Number(svg.dataset[n]);
		const x = part => box.left + (number('left') + part * (number('right') - number('left'))) * box.width / view.width;
		const y = box.top + (number('top') + number('bottom')) / 2 * box.height / view.height;
		const send = (kind, part) => svg.dispatchEvent(new PointerEvent(kind, {bubbles: true, pointerType: 'mouse', clientX: x(part), clientY: y}));
		const labels = () => [...svg.querySelectorAll('.xlabels text')].map(t => t.textContent).join(' ');`
	var got struct {
		Tip, Before, Zoomed, After string
		Hidden, Gone, Back         bool
	}
	must(t, p.Eval(ctx, `(() => {`+at+`
		const r = {}, tip = document.getElementById('tip');
		r.Before = labels();
		send('pointermove', .5); r.Tip = tip.textContent;
		send('pointerleave', .5); r.Hidden = tip.hidden;
		send('pointerdown', .2); send('pointermove', .4); send('pointerup', .4);
		r.Zoomed = labels();
		dispatchEvent(new KeyboardEvent('keydown', {key: 'Escape'}));
		r.After = labels();
		const key = svg.querySelector('.key[data-line]'), line = [...svg.querySelectorAll('.zoom g')].find(g => g.dataset.line === key.dataset.line);
		key.focus();
		key.dispatchEvent(new KeyboardEvent('keydown', {key: 'Enter'})); r.Gone = line.style.display === 'none' && key.getAttribute('aria-pressed') === 'false';
		key.dispatchEvent(new KeyboardEvent('keydown', {key: 'Enter'})); r.Back = line.style.display === '' && document.activeElement === key;
		return r;
	})()`, &got))
	if !strings.Contains(got.Tip, "p99") || !strings.Contains(got.Tip, " s\n") || !got.Hidden {
		t.Errorf("the numbers at the pointer: %q, hidden after it %v", got.Tip, got.Hidden)
	}
	if got.Zoomed == got.Before || got.After == "" || got.Zoomed == got.After {
		t.Errorf("times %q, of a part %q, and of all %q", got.Before, got.Zoomed, got.After)
	}
	if !got.Gone || !got.Back {
		t.Errorf("a line that Enter hides: %v, and shows: %v", got.Gone, got.Back)
	}
	for _, v := range []chromium.View{{Width: 390, Height: 844, Dark: true}, {Width: 800, Height: 900}, {Width: 1600, Height: 900, Dark: true}} {
		must(t, p.Look(ctx, v))
		var wide int
		must(t, p.Eval(ctx, `document.documentElement.scrollWidth`, &wide))
		if wide > v.Width {
			t.Errorf("the page is %d wide in a window of %d", wide, v.Width)
		}
	}
	if faults := p.Faults(); len(faults) != 0 {
		t.Errorf("faults: %q", faults)
	}
	if requests := p.Requests(); len(requests) != 1 {
		t.Errorf("the page asked for %q", requests)
	}
	must(t, b.Close())
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
