package pageapi

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"strconv"

	"github.com/cleavestore/cleave/engine"
)

// Failure is an error as a page or a program gets it.
type Failure struct {
	Status int    `json:"-"`
	Kind   string `json:"kind"` // a word for programs
	Text   string `json:"error"`
	// Line and Column are where a text is no query, from 1.
	Line   int `json:"line,omitempty"`
	Column int `json:"column,omitempty"`
	// RetryAfter is in seconds.
	RetryAfter float64 `json:"retry_after,omitempty"`
}

// Error implements error.
func (f Failure) Error() string { return f.Text }

// BadRequest returns an error for a request that cannot be understood.
func BadRequest(text string) error {
	return Failure{Status: http.StatusBadRequest, Kind: "invalid", Text: text}
}

// FailureOf returns what an error is for a client: a Failure as it is, others by the errors of
// package engine.
func FailureOf(err error) Failure {
	if f, ok := errors.AsType[Failure](err); ok {
		return f
	}
	f := Failure{Status: http.StatusInternalServerError, Kind: "failed", Text: err.Error()}
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
			f.Status, f.Kind = known.status, known.kind
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

// WriteError answers with an error.
func WriteError(w http.ResponseWriter, f Failure) {
	if f.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(f.RetryAfter))))
	}
	WriteJSON(w, f.Status, f)
}

// WriteJSON answers with a value.
func WriteJSON(w http.ResponseWriter, status int, value any) {
	text, err := json.Marshal(value)
	if err != nil {
		status, text = http.StatusInternalServerError, []byte(`{"kind":"failed","error":"the answer cannot be written as JSON"}`)
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(append(text, '\n')) // the client may be gone
}

// Decode reads the body of a request.
func Decode(r *http.Request, into any) error {
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return BadRequest("the body is not what is expected: " + err.Error())
	}
	return nil
}
