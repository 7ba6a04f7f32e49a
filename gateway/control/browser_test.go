package control_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cleavestore/cleave/gateway/control"
	"github.com/cleavestore/cleave/internal/chromium"
)

var (
	picture  = flag.String("picture", "", "`file` to which TestPage writes a picture of the page")
	pictures = flag.String("pictures", "", "`directory` to which TestPage writes a picture of the page for each width and scheme")
)

// TestPage watches a server as a person does: the key space and its partitions, a split by the
// button, a query with its charge, faults and checkpoints. The page is fit to be read in any
// width and in both schemes, and loads nothing from elsewhere.
func TestPage(t *testing.T) {
	path := chromium.Find()
	if path == "" {
		t.Skip("no Chromium is installed")
	}
	s := start(t, 200, nil)
	s.Plant(t, control.Fault{Status: 429, RetryAfter: 10, Operations: []string{"create"}, Share: 0.5})
	must[control.Taken](t)(s.Control.Checkpoint(t.Context(), "before-the-split"))
	b, err := chromium.Start(context.Background(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	p, err := b.Open(ctx, chromium.View{Width: 1200, Height: 1000})
	if err != nil {
		t.Fatal(err)
	}
	if err = p.Go(ctx, s.Control.URL); err != nil {
		t.Fatal(err)
	}
	do := func(steps ...string) {
		t.Helper()
		for _, step := range steps {
			if failed := p.Do(ctx, step); failed != nil {
				var shown string
				_ = p.Eval(t.Context(), `document.body.innerText`, &shown)
				t.Fatalf("%s: %v; the page shows:\n%s\nfaults: %q", step, failed, shown, p.Faults())
			}
		}
	}
	do(
		`document.getElementById('state').textContent === 'open'`,
		`[...document.getElementById('container').options].some(o => o.value === 'd.c')`,
		`do (() => { const c = document.getElementById('container'); c.value = 'd.c'; c.dispatchEvent(new Event('change', {bubbles: true})); })()`,
		`document.getElementById('panels').textContent.includes('429/3200')`,
		`document.getElementById('panels').textContent.includes('before-the-split')`,
		`document.querySelectorAll('#space rect').length === 1`,
		`do document.querySelector('#space rect').focus()`,
		`document.getElementById('space-detail').textContent.includes('200 documents')`,
		`press Enter`,
		`click #cut-out button`,
		`document.querySelector('#cut-out button').textContent.includes('Really split')`,
		`click #cut-out button`,
		`document.querySelectorAll('#space rect').length === 2`,
		`document.getElementById('cut-out').textContent.includes('Partition 2 is not there any more')`,
		`do location.hash = '#query'`,
		`do document.getElementById('query-text').select()`,
		`type SELECT TOP 3 * FROM c ORDER BY c.id`,
		`click #query-form button.main`,
		`document.getElementById('query-out').textContent.includes('charge')`,
		`document.querySelectorAll('#query-out .wide tbody tr').length === 3`,
		`do location.hash = '#live'`,
	)
	save := func(name string) {
		t.Helper()
		do(`do scrollTo(0, 0)`)
		png, failed := p.Picture(ctx, 0)
		if failed == nil {
			failed = os.WriteFile(name, png, 0o644)
		}
		if failed != nil {
			t.Fatal(failed)
		}
	}
	for _, width := range []int{390, 800, 1600} {
		for _, dark := range []bool{false, true} {
			if err = p.Look(ctx, chromium.View{Width: width, Height: 900, Dark: dark, Still: true}); err != nil {
				t.Fatal(err)
			}
			wrong, failed := p.Wrong(ctx)
			if failed != nil {
				t.Fatal(failed)
			}
			for _, w := range wrong {
				t.Errorf("%d wide, dark %v: %s", width, dark, w)
			}
			if *pictures == "" {
				continue
			}
			name := fmt.Sprintf("%d-light.png", width)
			if dark {
				name = fmt.Sprintf("%d-dark.png", width)
			}
			save(filepath.Join(*pictures, name))
		}
	}
	if *picture != "" {
		if err = p.Look(ctx, chromium.View{Width: 1200, Height: 1000, Still: true}); err != nil {
			t.Fatal(err)
		}
		save(*picture)
	}
	// After a return the page goes on, with what there is then.
	must[control.Taken](t)(s.Control.Return(ctx, "before-the-split"))
	do(`document.querySelectorAll('#space rect').length === 1`)
	if faults := p.Faults(); len(faults) != 0 {
		t.Errorf("faults: %q", faults)
	}
	for _, request := range p.Requests() {
		if request != "about:blank" && !strings.HasPrefix(request, s.Control.URL) {
			t.Errorf("the page asked for %s", request)
		}
	}
}
