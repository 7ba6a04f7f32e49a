package console

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/internal/chromium"
)

// hostile are names that would do something if they were read as HTML.
const (
	hostile      = `<img src=x onerror="window.broken=1"><script>window.broken=1</script>`
	hostileQuote = `"'><svg onload=window.broken=1>`
)

// browse starts a browser, and the page of a handler in it. It skips the test where no
// Chromium is installed.
func browse(t *testing.T, o *Options, db *engine.DB, v chromium.View) (context.Context, *chromium.Page, string) {
	t.Helper()
	path := chromium.Find()
	if path == "" {
		t.Skip("no Chromium is installed")
	}
	server := httptest.NewUnstartedServer(nil)
	o.Hosts = LocalHosts(server.Listener.Addr().String())
	server.Config.Handler = Handler(db, o)
	server.Start()
	t.Cleanup(server.Close)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	t.Cleanup(cancel)
	b, err := chromium.Start(context.Background(), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	p, err := b.Open(ctx, v)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Go(ctx, server.URL+"/"); err != nil {
		t.Fatal(err)
	}
	return ctx, p, server.URL
}

// steps does one thing after another on a page: an expression that is to become true, or,
// after "click " or "type ", what a person does.
func steps(t *testing.T, ctx context.Context, p *chromium.Page, list ...string) {
	t.Helper()
	for _, step := range list {
		if err := p.Do(ctx, step); err != nil {
			var shown string
			_ = p.Eval(t.Context(), `document.body.innerText`, &shown)
			t.Fatalf("%s: %v; the page shows:\n%s\nfaults: %q", step, err, shown, p.Faults())
		}
	}
}

// TestPage uses the page as a person does, who watches a split, asks a query and reads
// documents whose names are hostile.
func TestPage(t *testing.T) {
	events := new(Events)
	db, c := openTest(t, &engine.Options{Events: events.Listener(nil), SlowCall: time.Hour}, 400) // times all calls
	put(t, c, fmt.Sprintf(`{"id":%q,"k":%q,"n":5000,"x":%q}`, hostileQuote, hostile, hostile))
	ctx, p, url := browse(t, &Options{AllowSplit: true, Events: events, Title: hostileQuote, Panels: []Panel{
		{Title: "Mine", Heads: []string{"a", "b"}, Rows: func(context.Context) [][]string { return [][]string{{hostile, "2"}} }},
		{Title: "Other", Empty: "nothing here", Rows: func(context.Context) [][]string { return nil }},
	}}, db, chromium.View{Width: 1600, Height: 900})
	steps(t, ctx, p,
		`document.getElementById('state').textContent === 'open'`,
		`document.querySelectorAll('#space rect').length === 1`,
		`document.title.includes('onload')`,
		`document.querySelectorAll('#panels td').length === 2 && document.getElementById('panels').textContent.includes('nothing here')`,
		// A partition by the keyboard, and its split.
		`do document.querySelector('#space rect').focus()`,
		`document.getElementById('space-detail').textContent.includes('401 documents')`,
		`press Enter`,
		`document.getElementById('cut-out').textContent.includes('Split here')`,
		`click #cut-out button`,
		`document.querySelector('#cut-out button').textContent.includes('Really split')`,
	)
	if n := len(c.Partitions()); n != 1 {
		t.Errorf("%d partitions before the split was confirmed", n)
	}
	steps(t, ctx, p,
		`click #cut-out button`,
		`document.querySelectorAll('#space rect').length === 2`,
		`document.querySelectorAll('#history tbody tr').length === 1`,
		`document.querySelectorAll('#tree rect').length === 3`,
		`do document.querySelector('#space rect').focus()`,
		`press ArrowRight`,
		`document.activeElement === document.querySelectorAll('#space rect')[1] && document.activeElement.tabIndex === 0 && document.querySelector('#space rect').tabIndex === -1`,
		`click #wide-equal`,
		`document.querySelector('#space rect').getAttribute('width') === '50%'`,
		// A query that no index serves, one that has a fault, one with a parameter.
		`click nav a[href="#query"]`,
		`!document.getElementById('query').hidden`,
		`do document.getElementById('query-text').select()`,
		`type SELECT * FROM c WHERE c.x != 'none' AND IS_DEFINED(c.x)`,
		`click #query-form button.main`,
		`document.getElementById('query-out').textContent.includes('onerror')`,
		`document.querySelector('.advice').textContent.includes('/x/')`,
	)
	if faults := p.Faults(); len(faults) != 0 {
		t.Errorf("faults: %q", faults)
	}
	steps(t, ctx, p,
		`do document.getElementById('query-text').select()`,
		"type SELECT *\nFORM c",
		`press Tab`,
		`do document.getElementById('query-form').requestSubmit()`,
		`document.getElementById('query-error').textContent.endsWith('\nFORM c\n^')`,
		`do document.getElementById('query-text').select()`,
		`type SELECT c.id FROM c WHERE c.n > @least`,
		`do document.getElementById('query-parameters').focus()`,
		`type {"@least": 4000}`,
		`press Enter`,
		`document.querySelectorAll('#query-out .wide tbody tr').length === 1`,
		// Keys and documents.
		`click nav a[href="#items"]`,
		`document.querySelectorAll('#items-out tbody tr').length === 41`,
		`do [...document.querySelectorAll('#items-out button')].find(b => b.title.includes('onerror')).click()`,
		`document.querySelector('#items-out th').textContent === 'id'`,
		`click #items-out button`,
		`document.getElementById('item-body').textContent.includes('onerror')`,
		`document.activeElement.id === 'item-title'`,
		`click #item-close`,
		`click nav a[href="#store"]`,
		`document.getElementById('latency').textContent.includes('query')`,
		`document.getElementById('events').textContent.includes('became')`,
		`window.broken === undefined && document.scripts.length === 1 && !document.querySelector('main img, main b[onmouseover]')`,
	)
	for _, width := range []int{390, 800, 1600} {
		for _, dark := range []bool{false, true} {
			if err := p.Look(ctx, chromium.View{Width: width, Height: 900, Dark: dark, Still: true}); err != nil {
				t.Fatal(err)
			}
			for _, part := range []string{"live", "query", "items", "store"} {
				steps(t, ctx, p, "do location.hash = '#"+part+"'", "!document.getElementById('"+part+"').hidden")
				wrong, err := p.Wrong(ctx)
				if err != nil {
					t.Fatal(err)
				}
				for _, w := range wrong {
					t.Errorf("%s, %d wide, dark %v: %s", part, width, dark, w)
				}
			}
		}
	}
	if faults := p.Faults(); len(faults) != 1 || !strings.Contains(faults[0], "400") { // the query with a fault
		t.Errorf("faults: %q", faults)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	steps(t, ctx, p, `document.getElementById('problem').textContent.includes('is closed')`, `document.getElementById('state').textContent === 'closed'`)
	for _, request := range p.Requests() {
		if request != "about:blank" && !strings.HasPrefix(request, url+"/") {
			t.Errorf("the page asked for %s", request)
		}
	}
}

// TestPageIsTrue looks at documents that JavaScript would change, and at the answer to a query of a container that is not
// shown any more.
func TestPageIsTrue(t *testing.T) {
	db, c := openTest(t, nil, 0)
	for id, more := range map[string]string{
		"big": `"n":9007199254740993`, "huge": `"n":1e400`, "order": `"n":1,"7":2`, "plain": `"n" : {"a": [1, "x \" y", "é\n"]}`,
	} {
		put(t, c, fmt.Sprintf(`{"id":"%s","k":"k",%s}`, id, more))
	}
	d, err := db.CreateContainer(t.Context(), "d", engine.ContainerDef{PartitionKey: []string{"/k"}})
	if err != nil {
		t.Fatal(err)
	}
	put(t, d, `{"id":"other","k":"k"}`)
	ctx, p, _ := browse(t, &Options{}, db, chromium.View{Width: 1600, Height: 900})
	choose := func(name string) string {
		return `do (s => { s.value = '` + name + `'; s.dispatchEvent(new Event('change')) })(document.getElementById('container'))`
	}
	show := func(id, is string) []string {
		return []string{
			`do [...document.querySelectorAll('#items-out button')].find(b => b.title === '` + id + `').click()`,
			`document.getElementById('item-title').textContent === '` + id + `' && document.getElementById('item-body').textContent === ` + is,
		}
	}
	steps(t, ctx, p,
		`document.querySelectorAll('#container option').length === 2`,
		choose("c"),
		`do location.hash = '#items'`,
		`do document.getElementById('items-key').value = '"k"'`,
		`do document.getElementById('items-form').requestSubmit()`,
		`document.querySelectorAll('#items-out tbody tr').length === 4`,
	)
	steps(t, ctx, p, show("big", `'{"id":"big","k":"k","n":9007199254740993}'`)...)
	steps(t, ctx, p, show("huge", `'{"id":"huge","k":"k","n":1e400}'`)...)
	steps(t, ctx, p, show("order", `'{"id":"order","k":"k","n":1,"7":2}'`)...)
	steps(t, ctx, p, show("plain", `JSON.stringify({id: 'plain', k: 'k', n: {a: [1, 'x " y', 'é\n']}}, null, 2)`)...)
	steps(t, ctx, p,
		`do location.hash = '#query'`,
		// The first answer waits; done says that the page has seen it.
		`do (() => {
			const real = window.fetch;
			window.fetch = async (...of) => {
				const r = await real(...of);
				if (of[0] !== 'api/query' || window.letGo) return r;
				const json = r.json.bind(r);
				r.json = async () => { const v = await json(); setTimeout(() => window.done = true, 0); return v; };
				await new Promise(ok => window.letGo = ok);
				return r;
			};
		})()`,
		`do document.getElementById('query-text').value = "SELECT * FROM c WHERE c.id = 'big'"`,
		`do document.getElementById('query-form').requestSubmit()`,
		`window.letGo !== undefined`,
		choose("d"),
		`document.getElementById('query-state').textContent === '' && !document.getElementById('query-out').hasAttribute('aria-busy')`,
		`do document.getElementById('query-text').value = 'SELECT * FROM c'`,
		`do document.getElementById('query-form').requestSubmit()`,
		`document.querySelector('#query-out .wide tbody').textContent.includes('other')`,
		`do window.letGo()`,
		`window.done === true`,
	)
	var shown string
	if err := p.Eval(ctx, `document.querySelector('#query-out .wide tbody').textContent`, &shown); err != nil || !strings.Contains(shown, "other") {
		t.Errorf("the results of d are %q, %v", shown, err)
	}
	if faults := p.Faults(); len(faults) != 0 {
		t.Errorf("faults: %q", faults)
	}
}

// TestPageWithoutLoad looks at a store that is open for reading only, of which documents
// are not to be seen, and at one without containers.
func TestPageWithoutLoad(t *testing.T) {
	writer, _ := openTest(t, nil, 50)
	dir := writer.Dir()
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	db, err := engine.Open(t.Context(), dir, &engine.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	ctx, p, _ := browse(t, &Options{NoDocuments: true}, db, chromium.View{Width: 800, Height: 900})
	steps(t, ctx, p,
		`document.getElementById('state').textContent === 'read-only'`,
		`document.querySelectorAll('#space rect').length === 1 && document.querySelector('#space text').nextSibling.textContent.endsWith('KiB')`,
		`!document.getElementById('hot').checkVisibility() && !document.getElementById('movie').checkVisibility() && !document.querySelector('nav a[href="#query"]').checkVisibility()`,
		`document.querySelectorAll('#largest tbody tr').length === 10`,
		`!document.getElementById('tiles').textContent.includes('/s')`,
	)
	if faults := p.Faults(); len(faults) != 0 {
		t.Errorf("faults: %q", faults)
	}
	empty, err := engine.Open(t.Context(), t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer empty.Close()
	ctx, p, _ = browse(t, &Options{}, empty, chromium.View{Width: 390, Height: 900, Dark: true})
	steps(t, ctx, p,
		`document.getElementById('state').textContent === 'open'`,
		`document.getElementById('space-note').textContent === 'no container yet' && document.getElementById('container').disabled`,
		`click nav a[href="#query"]`,
		`click #query-form button.main`,
		`document.getElementById('query-error').textContent === 'This store has no container yet.'`,
	)
	if faults := p.Faults(); len(faults) != 0 {
		t.Errorf("faults: %q", faults)
	}
}

// TestPageOfDamage looks at a store of which a file is damaged: the page goes on, and says
// where.
func TestPageOfDamage(t *testing.T) {
	writer, c := openTest(t, nil, 400)
	id := c.Partitions()[0].ID
	if _, err := c.Split(t.Context(), id, nil); err != nil {
		t.Fatal(err)
	}
	for len(c.Partitions()) < 2 || len(writer.Jobs()) > 0 {
		if _, err := c.Read(t.Context(), engine.StringKey("k1"), "0001"); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(writer.Compact(t.Context()), writer.Close()); err != nil {
		t.Fatal(err)
	}
	hurt := c.Partitions()[0].ID
	files, err := filepath.Glob(filepath.Join(writer.Dir(), "p", fmt.Sprintf("%06d", hurt), "*.seg"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	text, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	for i := 64; i < len(text); i++ {
		text[i] ^= 0x55
	}
	if err := os.WriteFile(files[0], text, 0o600); err != nil {
		t.Fatal(err)
	}
	db, err := engine.Open(t.Context(), writer.Dir(), &engine.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	ctx, p, _ := browse(t, &Options{}, db, chromium.View{Width: 800, Height: 900})
	steps(t, ctx, p,
		`document.getElementById('largest-note').textContent.includes('corrupt')`,
		`document.getElementById('problem').textContent.includes('Damage was met in 1 place')`,
		`document.getElementById('state').textContent === 'read-only'`,
		fmt.Sprintf(`document.querySelector('#space rect.damaged').dataset.id === '%d'`, hurt),
		fmt.Sprintf(`document.getElementById('parts').textContent.includes('▲ %d damaged')`, hurt),
		`click nav a[href="#store"]`,
		`document.getElementById('damage-head').textContent === '▲ Damage (1)'`,
	)
	// Among many narrow partitions the damaged one has a label, and lines lie below labels.
	var labelled bool
	if err := p.Eval(ctx, `import('./space.js').then(m => {
			const s = new m.Space(() => {}), at = i => ({b: {id: i, partitions: 1, raw_bytes: 1e6 - i, damaged: i === 39}, x: 5 + 9 * i, y: 90});
			s.svg.querySelectorAll('.lead,.out').forEach(e => e.remove());
			s.callOut(Array.from({length: 40}, (_, i) => at(i)), 360, 'bytes');
			const all = [...s.svg.querySelectorAll('.lead,.out')].map(e => e.tagName), labels = [...s.svg.querySelectorAll('.out')].map(e => e.textContent);
			return labels.includes('▲ #39 damaged') && labels.length > 1 && all.lastIndexOf('line') < all.indexOf('text');
		})`, &labelled); err != nil || !labelled {
		t.Errorf("labels outside of partitions: %v, %v", labelled, err)
	}
	if faults := p.Faults(); len(faults) != 0 {
		t.Errorf("faults: %q", faults)
	}
}
