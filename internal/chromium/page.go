package chromium

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// View is how a page is looked at.
type View struct {
	Width, Height int // in CSS pixels
	Dark          bool
	Still         bool // the page is told that its reader prefers reduced motion
}

// Page is an open page.
type Page struct {
	browser *Browser
	session string
	view    View

	// Guarded by the mutex of the browser.
	requests []string
	faults   []string
}

// Open opens an empty page; Go takes it somewhere.
func (b *Browser) Open(ctx context.Context, v View) (*Page, error) {
	var profile struct {
		ID string `json:"browserContextId"`
	}
	if err := b.call(ctx, "", "Target.createBrowserContext", struct{}{}, &profile); err != nil {
		return nil, err
	}
	var target struct {
		ID string `json:"targetId"`
	}
	if err := b.call(ctx, "", "Target.createTarget", map[string]any{"url": "about:blank", "browserContextId": profile.ID}, &target); err != nil {
		return nil, err
	}
	var session struct {
		ID string `json:"sessionId"`
	}
	if err := b.call(ctx, "", "Target.attachToTarget", map[string]any{"targetId": target.ID, "flatten": true}, &session); err != nil {
		return nil, err
	}
	p := &Page{browser: b, session: session.ID}
	b.mu.Lock()
	b.pages[p.session] = p
	b.mu.Unlock()
	for _, domain := range []string{"Page", "Runtime", "Network", "Log"} {
		if err := p.call(ctx, domain+".enable", struct{}{}, nil); err != nil {
			return nil, err
		}
	}
	return p, p.Look(ctx, v)
}

// Look changes how the page is looked at.
func (p *Page) Look(ctx context.Context, v View) error {
	p.view = v
	scheme, motion := "light", "no-preference"
	if v.Dark {
		scheme = "dark"
	}
	if v.Still {
		motion = "reduce"
	}
	features := []map[string]string{{"name": "prefers-color-scheme", "value": scheme}, {"name": "prefers-reduced-motion", "value": motion}}
	return errors.Join(
		p.call(ctx, "Emulation.setDeviceMetricsOverride", map[string]any{"width": v.Width, "height": v.Height, "deviceScaleFactor": 1, "mobile": false}, nil),
		p.call(ctx, "Emulation.setEmulatedMedia", map[string]any{"features": features}, nil),
	)
}

// Go takes the page to a URL. It returns when the browser has begun to load it: use Wait
// for what is to be there.
func (p *Page) Go(ctx context.Context, url string) error {
	var went struct {
		Error string `json:"errorText"`
	}
	if err := p.call(ctx, "Page.navigate", map[string]any{"url": url}, &went); err != nil {
		return err
	}
	if went.Error != "" {
		return fmt.Errorf("chromium: %s: %s", url, went.Error)
	}
	return nil
}

// Eval evaluates an expression of JavaScript in the page, waits for it if it is a promise,
// and stores its value if into is not nil.
func (p *Page) Eval(ctx context.Context, expression string, into any) error {
	var r struct {
		Result struct {
			Value json.RawMessage `json:"value"`
		} `json:"result"`
		Exception *struct {
			Text      string `json:"text"`
			Exception struct {
				Description string `json:"description"`
			} `json:"exception"`
		} `json:"exceptionDetails"`
	}
	err := p.call(ctx, "Runtime.evaluate", map[string]any{"expression": expression, "awaitPromise": true, "returnByValue": true, "userGesture": true}, &r)
	if err != nil {
		return err
	}
	if r.Exception != nil {
		return fmt.Errorf("chromium: %s: %s %s", expression, r.Exception.Text, r.Exception.Exception.Description)
	}
	if into == nil || len(r.Result.Value) == 0 {
		return nil
	}
	return json.Unmarshal(r.Result.Value, into)
}

// Wait waits until an expression of JavaScript is true in the page.
func (p *Page) Wait(ctx context.Context, expression string) error {
	for {
		done := false
		err := p.Eval(ctx, `new Promise(done => { const look = () => { try { if (`+expression+`) return done(true); } catch {} setTimeout(look, 20); }; look(); })`, &done)
		if done || ctx.Err() != nil {
			return err
		}
		if err != nil && !strings.Contains(err.Error(), "context") { // the page is being replaced by another
			return err
		}
	}
}

// Click waits until the page has loaded, its scripts too, and the element that a CSS selector
// finds first is visible. Then it clicks at the element's middle, as a person does: what
// covers the element gets the click.
func (p *Page) Click(ctx context.Context, selector string) error {
	quoted, err := json.Marshal(selector)
	if err != nil {
		return err
	}
	if err = p.Wait(ctx, `document.readyState === 'complete' && document.querySelector(`+string(quoted)+`)?.checkVisibility()`); err != nil {
		return err
	}
	var at struct {
		X, Y float64
	}
	err = p.Eval(ctx, `(() => { const e = document.querySelector(`+string(quoted)+`); e.scrollIntoView({block: 'center', behavior: 'instant'}); const r = e.getBoundingClientRect(); return {X: r.x + r.width / 2, Y: r.y + r.height / 2}; })()`, &at)
	if err != nil {
		return err
	}
	for _, kind := range []string{"mouseMoved", "mousePressed", "mouseReleased"} {
		err = errors.Join(err, p.call(ctx, "Input.dispatchMouseEvent", map[string]any{"type": kind, "x": at.X, "y": at.Y, "button": "left", "clickCount": 1}, nil))
	}
	return err
}

// Type types text into what has the focus.
func (p *Page) Type(ctx context.Context, text string) error {
	return p.call(ctx, "Input.insertText", map[string]any{"text": text}, nil)
}

// Press presses a key, such as Enter, Tab or ArrowLeft, in what has the focus.
func (p *Page) Press(ctx context.Context, key string) error {
	codes := map[string]int{"Tab": 9, "Enter": 13, "Escape": 27, " ": 32, "End": 35, "Home": 36, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40}
	down := map[string]any{"type": "keyDown", "key": key, "code": key, "windowsVirtualKeyCode": codes[key]}
	if key == "Enter" {
		down["text"] = "\r"
	}
	return errors.Join(
		p.call(ctx, "Input.dispatchKeyEvent", down, nil),
		p.call(ctx, "Input.dispatchKeyEvent", map[string]any{"type": "keyUp", "key": key, "code": key, "windowsVirtualKeyCode": codes[key]}, nil),
	)
}

// Picture returns a PNG of the page, as wide as its view and as high as told; 0: all of it.
func (p *Page) Picture(ctx context.Context, height int) ([]byte, error) {
	if height <= 0 {
		if err := p.Eval(ctx, `document.documentElement.scrollHeight`, &height); err != nil {
			return nil, err
		}
	}
	var shot struct {
		Data string `json:"data"`
	}
	clip := map[string]any{"x": 0, "y": 0, "width": p.view.Width, "height": height, "scale": 1}
	err := p.call(ctx, "Page.captureScreenshot", map[string]any{"format": "png", "captureBeyondViewport": true, "clip": clip}, &shot)
	if err != nil {
		return nil, err
	}
	return base64.StdEncoding.DecodeString(shot.Data)
}

// Requests returns the URLs that the page has asked for, without those of data.
func (p *Page) Requests() []string {
	p.browser.mu.Lock()
	defer p.browser.mu.Unlock()
	return slices.Clone(p.requests)
}

// Faults returns what went wrong on the page: exceptions, what it wrote to the console as
// an error or warning, and what the browser did, such as loads that a policy refused.
func (p *Page) Faults() []string {
	p.browser.mu.Lock()
	defer p.browser.mu.Unlock()
	return slices.Clone(p.faults)
}

func (p *Page) call(ctx context.Context, method string, params, into any) error {
	return p.browser.call(ctx, p.session, method, params, into)
}

// event notes what happened on the page. The mutex of the browser is held.
func (p *Page) event(m message) {
	switch m.Method {
	case "Network.requestWillBeSent":
		var e struct {
			Request struct {
				URL string `json:"url"`
			} `json:"request"`
		}
		if json.Unmarshal(m.Params, &e) == nil && !strings.HasPrefix(e.Request.URL, "data:") {
			p.requests = append(p.requests, e.Request.URL)
		}
	case "Runtime.exceptionThrown":
		p.faults = append(p.faults, "exception: "+string(m.Params))
	case "Runtime.consoleAPICalled":
		var e struct {
			Type string `json:"type"`
		}
		if json.Unmarshal(m.Params, &e) == nil && (e.Type == "error" || e.Type == "warning" || e.Type == "assert") {
			p.faults = append(p.faults, "console: "+string(m.Params))
		}
	case "Log.entryAdded":
		var e struct {
			Entry struct {
				Level string `json:"level"`
				Text  string `json:"text"`
				URL   string `json:"url"`
			} `json:"entry"`
		}
		if json.Unmarshal(m.Params, &e) == nil && (e.Entry.Level == "error" || e.Entry.Level == "warning") {
			p.faults = append(p.faults, e.Entry.Level+": "+e.Entry.Text+" "+e.Entry.URL)
		}
	}
}
