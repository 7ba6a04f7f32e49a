package chromium

import (
	"bytes"
	"context"
	"image/png"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"
)

const page = `<!doctype html><title>t</title><link rel="icon" href="data:,"><body style="margin:0;height:1234px"><button id="b">0</button><input id="i"><script src="app.js"></script>`

const script = `const b = document.getElementById('b');
b.onclick = () => { b.textContent++; };
console.warn('careful');
fetch('absent');
setTimeout(() => { throw new Error('thrown'); });`

// TestBrowser looks at a page, uses it, and finds what went wrong on it.
func TestBrowser(t *testing.T) {
	path := Find()
	if path == "" {
		t.Skip("no Chromium is installed")
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := map[string]string{"/": page, "/app.js": script}[r.URL.Path]
		if body == "" {
			w.WriteHeader(http.StatusNotFound)
		}
		if r.URL.Path == "/app.js" {
			w.Header().Set("Content-Type", "text/javascript")
		}
		_, _ = w.Write([]byte(body))
	}))
	defer server.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	b, err := Start(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	p, err := b.Open(ctx, View{Width: 321, Height: 400, Dark: true, Still: true})
	check(t, err)
	check(t, p.Go(ctx, server.URL))
	check(t, p.Click(ctx, "#b"))
	check(t, p.Wait(ctx, `b.textContent === '1'`))
	check(t, p.Click(ctx, "#i"))
	check(t, p.Type(ctx, "text"))
	check(t, p.Press(ctx, "Home"))
	check(t, p.Type(ctx, "a "))
	var got struct {
		Value       string
		Dark, Still bool
		Width       int
	}
	check(t, p.Eval(ctx, `Promise.resolve({Value: document.getElementById('i').value, Width: innerWidth,
		Dark: matchMedia('(prefers-color-scheme: dark)').matches, Still: matchMedia('(prefers-reduced-motion: reduce)').matches})`, &got))
	if got.Value != "a text" || !got.Dark || !got.Still || got.Width != 321 {
		t.Errorf("the page: %+v", got)
	}
	if err := p.Eval(ctx, `nothing.here`, nil); err == nil || !strings.Contains(err.Error(), "ReferenceError") {
		t.Errorf("an expression that fails: %v", err)
	}
	for height, want := range map[int]int{0: 1234, 77: 77} {
		data, err := p.Picture(ctx, height)
		check(t, err)
		shape, err := png.DecodeConfig(bytes.NewReader(data))
		check(t, err)
		if shape.Width != 321 || shape.Height != want {
			t.Errorf("a picture of %d by %d", shape.Width, shape.Height)
		}
	}
	check(t, p.Wait(ctx, `performance.getEntriesByName(location.href + 'absent').length === 1`))
	faults := p.Faults()
	for _, want := range []string{"careful", "Error: thrown", "404"} {
		if !slices.ContainsFunc(faults, func(f string) bool { return strings.Contains(f, want) }) {
			t.Errorf("no fault %q in %q", want, faults)
		}
	}
	requests := p.Requests()
	slices.Sort(requests)
	if want := []string{server.URL + "/", server.URL + "/absent", server.URL + "/app.js"}; !slices.Equal(requests, want) {
		t.Errorf("requests %q", requests)
	}
	if err := p.Go(ctx, "http://127.0.0.1:1/"); err == nil {
		t.Error("a page that is not there was opened")
	}
	check(t, b.Close())
	if err := p.Eval(ctx, "1", nil); err == nil {
		t.Error("a browser that has ended answers")
	}
}

// TestClickWaitsForScripts clicks a button whose script is late: the click is made when
// the script has run, not before.
func TestClickWaitsForScripts(t *testing.T) {
	path := Find()
	if path == "" {
		t.Skip("no Chromium is installed")
	}
	release := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/app.js" {
			<-release
			w.Header().Set("Content-Type", "text/javascript")
			_, _ = w.Write([]byte(script))
			return
		}
		_, _ = w.Write([]byte(page))
	}))
	defer server.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	b, err := Start(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { check(t, b.Close()) }()
	p, err := b.Open(ctx, View{Width: 321, Height: 400})
	check(t, err)
	check(t, p.Go(ctx, server.URL))
	check(t, p.Wait(ctx, `document.getElementById('b')?.checkVisibility()`))
	clicked := make(chan error, 1)
	go func() { clicked <- p.Click(ctx, "#b") }()
	for range 100 { // a click that does not wait returns meanwhile
		check(t, p.Eval(ctx, `1`, nil))
	}
	if len(clicked) > 0 {
		t.Error("the click did not wait for the script")
	}
	close(release)
	check(t, <-clicked)
	check(t, p.Wait(ctx, `document.getElementById('b').textContent === '1'`))
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
