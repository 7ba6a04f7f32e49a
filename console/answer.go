package console

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/cleavestore/cleave/engine"
)

// failure is an error as the page gets it.
type failure struct {
	status int
	Kind   string `json:"kind"` // a word for programs
	Text   string `json:"error"`
	// Line and Column are where a text is no query, from 1.
	Line   int `json:"line,omitempty"`
	Column int `json:"column,omitempty"`
	// RetryAfter is in seconds.
	RetryAfter float64 `json:"retry_after,omitempty"`
}

// Error implements error.
func (f failure) Error() string { return f.Text }

// badRequest is an error for a request that cannot be understood.
func badRequest(text string) error {
	return failure{status: http.StatusBadRequest, Kind: "invalid", Text: text}
}

// failureOf returns what an error of the store is for the page.
func failureOf(err error) failure {
	if f, ok := errors.AsType[failure](err); ok {
		return f
	}
	f := failure{status: http.StatusInternalServerError, Kind: "failed", Text: err.Error()}
	if bad, ok := errors.AsType[*engine.QuerySyntaxError](err); ok {
		f.Line, f.Column = bad.Line, bad.Column
	}
	for _, known := range []struct {
		target error
		status int
		kind   string
	}{
		{engine.ErrThrottled, http.StatusTooManyRequests, "throttled"},
		{engine.ErrRefused, http.StatusConflict, "refused"},
		{engine.ErrClosed, http.StatusServiceUnavailable, "closed"},
		{engine.ErrNoContainer, http.StatusNotFound, "not_found"},
		{engine.ErrNotFound, http.StatusNotFound, "not_found"},
		{engine.ErrReadOnly, http.StatusForbidden, "read_only"},
		{engine.ErrBadContinuation, http.StatusBadRequest, "invalid"},
		{engine.ErrInvalid, http.StatusBadRequest, "invalid"},
		{engine.ErrTooLarge, http.StatusBadRequest, "invalid"},
		{engine.ErrCorrupt, http.StatusInternalServerError, "corrupt"},
		{context.DeadlineExceeded, http.StatusGatewayTimeout, "timeout"},
		{context.Canceled, 499, "cancelled"}, // the client is gone
	} {
		if errors.Is(err, known.target) {
			f.status, f.Kind = known.status, known.kind
			break
		}
	}
	if f.Kind == "timeout" {
		f.Text = "this took too long and was broken off"
	}
	if throttled, ok := errors.AsType[*engine.ThrottledError](err); ok {
		f.RetryAfter = throttled.RetryAfter.Seconds()
	}
	return f
}

func writeError(w http.ResponseWriter, f failure) {
	if f.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(f.RetryAfter))))
	}
	writeJSON(w, f.status, f)
}

func writeJSON(w http.ResponseWriter, status int, value any) {
	text, err := json.Marshal(value)
	if err != nil {
		status, text = http.StatusInternalServerError, []byte(`{"kind":"failed","error":"the answer cannot be written as JSON"}`)
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(append(text, '\n')) // the client may be gone
}

// decode reads the body of a request.
func decode(r *http.Request, into any) error {
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return badRequest("the body is not what is expected: " + err.Error())
	}
	return nil
}

// number returns a whole number that a request has, def if it has none.
func number(q url.Values, name string, def, least, most int) (int, error) {
	text := q.Get(name)
	if text == "" {
		return def, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < least || n > most {
		return 0, badRequest(name + ": want a number from " + strconv.Itoa(least) + " to " + strconv.Itoa(most))
	}
	return n, nil
}

// page returns what part of a list a request asks for.
func page(q url.Values, most int) (offset, limit int, err error) {
	if offset, err = number(q, "offset", 0, 0, math.MaxInt32); err == nil {
		limit, err = number(q, "limit", min(50, most), 1, most)
	}
	return offset, limit, err
}

// cut returns a page of a list.
func cut[T any](list []T, offset, limit int) []T {
	offset = min(offset, len(list))
	return append([]T{}, list[offset:min(len(list), offset+limit)]...)
}

// milliseconds is a time as the page has it; 0 for none.
func milliseconds(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// finite is a rate that JSON can have.
func finite(x float64) float64 {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return 0
	}
	return x
}
