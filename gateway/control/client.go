package control

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Client speaks to a control port. It is safe for concurrent use. The errors of its methods are
// *Error where the server has answered.
type Client struct {
	// URL of the control port, such as "http://127.0.0.1:8091/".
	URL string
	// Key is that of the server, "" if it wants none.
	Key string
	// HTTP carries out the requests. nil: http.DefaultClient.
	HTTP *http.Client
}

// Error is an answer that is an error.
type Error struct {
	Status int
	Kind   string // for programs: invalid, not_found, exists, refused, unauthorized, …
	Text   string
}

// Error implements error.
func (e *Error) Error() string {
	return fmt.Sprintf("control port: %d %s: %s", e.Status, e.Kind, e.Text)
}

// maxAnswer bounds what is read of an answer.
const maxAnswer = 64 << 20

func (c *Client) do(ctx context.Context, method, path string, body, into any) error {
	var text []byte
	if body != nil {
		var err error
		if text, err = json.Marshal(body); err != nil {
			return err
		}
	}
	r, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(c.URL, "/")+"/control/"+path, bytes.NewReader(text))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	if c.Key != "" {
		r.Header.Set("Authorization", "Bearer "+c.Key)
	}
	client := c.HTTP
	if client == nil {
		client = http.DefaultClient
	}
	answer, err := client.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err = io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	if err != nil {
		return err
	}
	if answer.StatusCode != http.StatusOK {
		e := &Error{Status: answer.StatusCode, Kind: "failed", Text: answer.Status}
		var f struct{ Kind, Error string }
		if json.Unmarshal(text, &f) == nil && f.Kind != "" {
			e.Kind, e.Text = f.Kind, f.Error
		}
		return e
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(text, into)
}

func containerPath(database, container, more string) string {
	return "containers/" + url.PathEscape(database) + "/" + url.PathEscape(container) + more
}

// Containers returns all containers.
func (c *Client) Containers(ctx context.Context) (all []Container, err error) {
	return all, c.do(ctx, http.MethodGet, "containers", nil, &all)
}

// Container returns a container with its physical partitions.
func (c *Client) Container(ctx context.Context, database, container string) (k Container, err error) {
	return k, c.do(ctx, http.MethodGet, containerPath(database, container, ""), nil, &k)
}

// HotKeys returns the n logical partitions that have consumed most of late.
func (c *Client) HotKeys(ctx context.Context, database, container string, n int) (all []HotKey, err error) {
	return all, c.do(ctx, http.MethodGet, containerPath(database, container, "/hot?n="+strconv.Itoa(n)), nil, &all)
}

// SetThroughput gives a container provisioned throughput, in RU/s.
func (c *Client) SetThroughput(ctx context.Context, database, container string, perSecond int) (k Container, err error) {
	return k, c.do(ctx, http.MethodPut, containerPath(database, container, "/throughput"), map[string]int{"throughput": perSecond}, &k)
}

// Split begins to split a physical partition.
func (c *Client) Split(ctx context.Context, database, container string, what Reshape) (j Job, err error) {
	return j, c.do(ctx, http.MethodPost, containerPath(database, container, "/split"), what, &j)
}

// Merge begins to merge two neighbours.
func (c *Client) Merge(ctx context.Context, database, container string, what Reshape) (j Job, err error) {
	return j, c.do(ctx, http.MethodPost, containerPath(database, container, "/merge"), what, &j)
}

// Move begins to move the boundary between two neighbours.
func (c *Client) Move(ctx context.Context, database, container string, what Reshape) (j Job, err error) {
	return j, c.do(ctx, http.MethodPost, containerPath(database, container, "/move"), what, &j)
}

// Job returns a job. It waits for its end, at most so long, and a minute.
func (c *Client) Job(ctx context.Context, id int64, wait time.Duration) (j Job, err error) {
	ms := strconv.FormatInt(min(wait, mostWait).Milliseconds(), 10)
	return j, c.do(ctx, http.MethodGet, "jobs/"+strconv.FormatInt(id, 10)+"?wait_ms="+ms, nil, &j)
}

// Cancel ends a job if its children have not taken over yet.
func (c *Client) Cancel(ctx context.Context, id int64) error {
	return c.do(ctx, http.MethodDelete, "jobs/"+strconv.FormatInt(id, 10), nil, nil)
}

// Plant plants a fault and returns it with its id.
func (c *Client) Plant(ctx context.Context, f Fault) (planted Fault, err error) {
	return planted, c.do(ctx, http.MethodPost, "faults", f, &planted)
}

// Faults returns the faults that are planted.
func (c *Client) Faults(ctx context.Context) (all []Fault, err error) {
	return all, c.do(ctx, http.MethodGet, "faults", nil, &all)
}

// RemoveFault removes a fault; with id 0 all.
func (c *Client) RemoveFault(ctx context.Context, id int64) error {
	if id == 0 {
		return c.do(ctx, http.MethodDelete, "faults", nil, nil)
	}
	return c.do(ctx, http.MethodDelete, "faults/"+strconv.FormatInt(id, 10), nil, nil)
}

// Clock returns the clock of the store.
func (c *Client) Clock(ctx context.Context) (now Clock, err error) {
	return now, c.do(ctx, http.MethodGet, "clock", nil, &now)
}

// Advance has time pass: items expire, throughput refills.
func (c *Client) Advance(ctx context.Context, d time.Duration) (now Clock, err error) {
	return now, c.do(ctx, http.MethodPost, "clock", map[string]float64{"advance_ms": float64(d) / float64(time.Millisecond)}, &now)
}

// Checkpoint keeps the state of the whole store under a name.
func (c *Client) Checkpoint(ctx context.Context, name string) (t Taken, err error) {
	return t, c.do(ctx, http.MethodPost, "checkpoints", Checkpoint{name}, &t)
}

// Checkpoints returns the checkpoints by name.
func (c *Client) Checkpoints(ctx context.Context) (all []Checkpoint, err error) {
	return all, c.do(ctx, http.MethodGet, "checkpoints", nil, &all)
}

// Return takes the whole store back to a checkpoint: see Host.Return.
func (c *Client) Return(ctx context.Context, name string) (t Taken, err error) {
	return t, c.do(ctx, http.MethodPost, "checkpoints/"+url.PathEscape(name)+"/return", struct{}{}, &t)
}

// RemoveCheckpoint removes a checkpoint.
func (c *Client) RemoveCheckpoint(ctx context.Context, name string) error {
	return c.do(ctx, http.MethodDelete, "checkpoints/"+url.PathEscape(name), nil, nil)
}
