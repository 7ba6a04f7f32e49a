// Package chromium drives a headless Chromium, for tests of pages and for pictures of them.
// It speaks the DevTools protocol over a pipe: JSON messages that end with a zero byte.
//
// Invariants:
//
//  1. The browser ends with its Browser: Close ends the process and waits for it.
//  2. Each page has a profile of its own: pages share no cookies, caches or storage.
//  3. Nothing that a page did is lost: its requests, errors and refused loads are there from
//     the first byte of the page on.
package chromium

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"time"
)

// Find returns the path of a Chromium or Chrome that is installed, "" if none is. On
// Windows it always returns "": a process there inherits no pipes by number.
func Find() string {
	if runtime.GOOS == "windows" {
		return ""
	}
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return ""
}

// Browser is a running browser. Its methods are safe for concurrent use.
type Browser struct {
	process *exec.Cmd
	profile string
	in      *os.File // commands
	out     *os.File // answers and events
	write   sync.Mutex
	said    tail          // standard error
	read    chan struct{} // closed when out has ended

	mu      sync.Mutex
	last    int
	waiting map[int]chan message
	pages   map[string]*Page // by session
	ended   error
}

// message is a command, an answer or an event.
type message struct {
	ID      int             `json:"id,omitempty"`
	Session string          `json:"sessionId,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   *struct {
		Message string `json:"message"`
	} `json:"error,omitempty"`
}

// patience is how long Close waits until it kills the browser.
const patience = 10 * time.Second

// Start starts the browser at path, which Find returns. It ends when ctx does, or with
// Close.
func Start(ctx context.Context, path string) (*Browser, error) {
	profile, err := os.MkdirTemp("", "chromium")
	if err != nil {
		return nil, err
	}
	b := &Browser{profile: profile, read: make(chan struct{}), waiting: make(map[int]chan message), pages: make(map[string]*Page)}
	theirIn, in, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(profile))
	}
	out, theirOut, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, theirIn.Close(), in.Close(), os.RemoveAll(profile))
	}
	b.in, b.out = in, out
	args := []string{"--headless=new", "--remote-debugging-pipe", "--user-data-dir=" + profile, "--disable-gpu", "--hide-scrollbars", "--mute-audio",
		"--no-first-run", "--no-default-browser-check", "--disable-extensions", "--disable-sync", "--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage"}
	if os.Geteuid() == 0 {
		args = append(args, "--no-sandbox") // it has none for the superuser
	}
	b.process = exec.CommandContext(ctx, path, append(args, "about:blank")...)
	b.process.Stderr = &b.said
	b.process.ExtraFiles = []*os.File{theirIn, theirOut} // descriptors 3 and 4
	err = b.process.Start()
	err = errors.Join(err, theirIn.Close(), theirOut.Close())
	if err != nil {
		return nil, errors.Join(err, in.Close(), out.Close(), os.RemoveAll(profile))
	}
	go b.receive()
	return b, nil
}

// Close ends the browser and removes its profile.
func (b *Browser) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := b.call(ctx, "", "Browser.close", struct{}{}, nil); err != nil { // then its processes end in order
		_ = b.process.Process.Kill() // it may have ended already
	}
	stop := context.AfterFunc(ctx, func() { _ = b.process.Process.Kill() })
	_ = b.process.Wait() // how it ended is of no interest
	stop()
	err := errors.Join(b.in.Close(), b.out.Close())
	<-b.read
	return errors.Join(err, os.RemoveAll(b.profile))
}

// receive hands out what the browser says, until it ends.
func (b *Browser) receive() {
	defer close(b.read)
	r := bufio.NewReader(b.out)
	for {
		text, err := r.ReadBytes(0)
		if err == nil {
			err = b.handle(text[:len(text)-1])
		}
		if err != nil {
			b.end(err)
			return
		}
	}
}

func (b *Browser) handle(text []byte) error {
	var m message
	if err := json.Unmarshal(text, &m); err != nil {
		return fmt.Errorf("chromium: a message is no JSON: %w", err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if m.ID != 0 {
		if answer := b.waiting[m.ID]; answer != nil {
			delete(b.waiting, m.ID)
			answer <- m // it has room
		}
	} else if p := b.pages[m.Session]; p != nil {
		p.event(m)
	}
	return nil
}

// end fails all calls, those to come too.
func (b *Browser) end(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if errors.Is(err, io.EOF) || errors.Is(err, os.ErrClosed) {
		err = fmt.Errorf("chromium: the browser has ended; it said: %q", b.said.text())
	}
	b.ended = err
	for _, answer := range b.waiting {
		close(answer)
	}
	clear(b.waiting)
}

// call sends a command to a page, or to the browser without a session, and waits for its
// answer.
func (b *Browser) call(ctx context.Context, session, method string, params, into any) error {
	text, err := json.Marshal(params)
	if err != nil {
		return err
	}
	answer := make(chan message, 1)
	b.mu.Lock()
	if b.ended != nil {
		b.mu.Unlock()
		return b.ended
	}
	b.last++
	m := message{ID: b.last, Session: session, Method: method, Params: text}
	b.waiting[m.ID] = answer
	b.mu.Unlock()
	if text, err = json.Marshal(m); err != nil {
		return err
	}
	b.write.Lock()
	_, err = b.in.Write(append(text, 0))
	b.write.Unlock()
	if err != nil {
		return err
	}
	select {
	case got, ok := <-answer:
		switch {
		case !ok:
			b.mu.Lock()
			defer b.mu.Unlock()
			return b.ended
		case got.Error != nil:
			return fmt.Errorf("chromium: %s: %s", method, got.Error.Message)
		case into != nil:
			return json.Unmarshal(got.Result, into)
		}
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
