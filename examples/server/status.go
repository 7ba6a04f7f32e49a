package main

import (
	"encoding/json"
	"errors"
	"log/slog"
	"math"
	"net/http"
	"strconv"

	"github.com/cleavestore/cleave/engine"
)

// statuses says which error is which status code; the first that matches
// decides. All errors of the engine are told apart by errors.Is.
var statuses = []struct {
	err  error
	code int
}{
	{engine.ErrNotFound, http.StatusNotFound},
	{engine.ErrExists, http.StatusConflict},
	{engine.ErrConflict, http.StatusConflict}, // a transaction that lost each of its tries
	{engine.ErrPrecondition, http.StatusPreconditionFailed},
	{engine.ErrNotModified, http.StatusNotModified},
	{engine.ErrTooLarge, http.StatusRequestEntityTooLarge},
	{engine.ErrInvalid, http.StatusBadRequest},
	{engine.ErrBadContinuation, http.StatusBadRequest},
	{engine.ErrThrottled, http.StatusTooManyRequests},
	{engine.ErrLogicalPartitionFull, http.StatusForbidden},
	{engine.ErrDiskFull, http.StatusInsufficientStorage},
	{engine.ErrBusy, http.StatusServiceUnavailable},
	{engine.ErrClosed, http.StatusServiceUnavailable},
	{engine.ErrFailed, http.StatusServiceUnavailable}, // until the store is opened again
}

// fail answers a request with an error.
func fail(w http.ResponseWriter, r *http.Request, err error) {
	var gone brokenError
	if errors.As(err, &gone) {
		// The status is sent already. To break the connection is the only way left
		// to tell the client that this is not the end of the answer.
		if r.Context().Err() == nil {
			slog.Error("broken off", "method", r.Method, "path", r.URL.Path, "err", gone.error)
		}
		panic(http.ErrAbortHandler)
	}
	code, text := http.StatusInternalServerError, ""
	for _, status := range statuses {
		if errors.Is(err, status.err) {
			code, text = status.code, err.Error()
			break
		}
	}
	var bad badRequest
	var long *http.MaxBytesError
	switch {
	case errors.As(err, &bad):
		code, text = http.StatusBadRequest, err.Error()
	case errors.As(err, &long):
		code, text = http.StatusRequestEntityTooLarge, err.Error()
	case code >= 500:
		// Names of files are for the log, not for clients.
		slog.Error("failed", "method", r.Method, "path", r.URL.Path, "err", err)
		text = http.StatusText(code)
	}
	var throttled *engine.ThrottledError
	if errors.As(err, &throttled) {
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(throttled.RetryAfter.Seconds()))))
	}
	if code == http.StatusNotModified {
		w.Header().Set("Etag", r.Header.Get("If-None-Match"))
		w.WriteHeader(code)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(map[string]string{"error": text}) // nobody is left to tell
}

// badRequest is an error of the client's that the engine has not seen.
type badRequest string

func (e badRequest) Error() string { return string(e) }

// bodyError says what is wrong with the body of a request.
func bodyError(err error) error {
	if long := (*http.MaxBytesError)(nil); errors.As(err, &long) {
		return err
	}
	return badRequest("body: " + err.Error())
}

// brokenError is an error after the answer had begun.
type brokenError struct{ error }

// broken marks an error as one after the answer had begun.
func broken(err error) error {
	if err == nil {
		return nil
	}
	return brokenError{err}
}
