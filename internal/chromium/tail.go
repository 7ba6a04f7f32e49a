package chromium

import "sync"

// tailBytes is how much a tail keeps.
const tailBytes = 4 << 10

// tail keeps the last bytes that were written to it.
type tail struct {
	mu   sync.Mutex
	last []byte
}

// Write implements io.Writer.
func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last = append(t.last, b...)
	t.last = t.last[max(0, len(t.last)-tailBytes):]
	return len(b), nil
}

func (t *tail) text() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.last)
}
