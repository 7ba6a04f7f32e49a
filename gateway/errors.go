package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/cleavestore/cleave/engine"
)

// failure is an answer that is an error: its status, sub-status, code and message.
type failure struct {
	status int
	sub    int // 0: none
	msg    string
	retry  time.Duration // when the call may be repeated; of 429 in any case
	extra  string        // additionalErrorInfo; "": none
	page   bool          // the answer is a page in HTML
}

// Error implements error.
func (f *failure) Error() string { return f.code() + ": " + f.msg }

var codes = map[int]string{
	http.StatusBadRequest:            "BadRequest",
	http.StatusUnauthorized:          "Unauthorized",
	http.StatusForbidden:             "Forbidden",
	http.StatusNotFound:              "NotFound",
	http.StatusMethodNotAllowed:      "MethodNotAllowed",
	http.StatusRequestTimeout:        "RequestTimeout",
	http.StatusConflict:              "Conflict",
	http.StatusGone:                  "Gone",
	http.StatusPreconditionFailed:    "PreconditionFailed",
	http.StatusRequestEntityTooLarge: "RequestEntityTooLarge",
	http.StatusFailedDependency:      "FailedDependency",
	http.StatusTooManyRequests:       "TooManyRequests",
	statusRetryWith:                  "RetryWith",
	http.StatusInternalServerError:   "InternalServerError",
	http.StatusNotImplemented:        "NotImplemented",
	http.StatusServiceUnavailable:    "ServiceUnavailable",
}

// statusRetryWith says that a write met another write of the same item too often.
const statusRetryWith = 449

// Sub-statuses.
const (
	subKeyMismatch      = 1001 // of 400: key in the header and in the document differ
	subCrossPartition   = 1004 // of 400: query that the gateway does not serve
	subSessionAhead     = 1002 // of 404
	subOwnerMissing     = 1003 // of 404: no such database or container
	subRangeGone        = 1002 // of 410
	subKeyFull          = 1014 // of 403
	subConditionFalse   = 1110 // of 412: the condition of a patch
	subUniqueKey        = 3301 // of 409
	subRequestRateLimit = 3200 // of 429
	subTransactionLarge = 3401 // of 413
	subAnswerLarge      = 3402 // of 413
)

func (f *failure) code() string {
	if c := codes[f.status]; c != "" {
		return c
	}
	return strconv.Itoa(f.status)
}

// retryMillis returns retry in milliseconds, rounded up: then the call is admitted.
func (f *failure) retryMillis() int64 { return (f.retry + time.Millisecond - 1).Milliseconds() }

func failf(status int, format string, args ...any) *failure {
	return &failure{status: status, msg: fmt.Sprintf(format, args...)}
}

func badf(format string, args ...any) *failure {
	return failf(http.StatusBadRequest, format, args...)
}

func (f *failure) withSub(sub int) *failure {
	f.sub = sub
	return f
}

// refusal returns the answer to an operation of a transaction that has an error; nil if there is none, or if it concerns the
// transaction as a whole.
func refusal(err error) *failure {
	if err == nil || errors.Is(err, engine.ErrClosed) || errors.Is(err, engine.ErrNoContainer) {
		return nil
	}
	switch f := failureOf(err); f.status {
	case http.StatusBadRequest, http.StatusForbidden, http.StatusNotFound, http.StatusConflict, http.StatusPreconditionFailed, http.StatusRequestEntityTooLarge:
		return f
	}
	return nil
}

// failureOf returns the answer that stands for an error.
func failureOf(err error) *failure {
	var f *failure
	if errors.As(err, &f) {
		return f
	}
	var fault *Fault
	if errors.As(err, &fault) {
		return fault.failure()
	}
	var (
		document *engine.DocumentError
		throttle *engine.ThrottledError
		tooLarge *http.MaxBytesError
		limit    *engine.LimitError
	)
	say := func(status, sub int) *failure { return &failure{status: status, sub: sub, msg: err.Error()} }
	switch {
	case errors.As(err, &throttle):
		f = say(http.StatusTooManyRequests, subRequestRateLimit)
		f.retry = throttle.RetryAfter
		return f
	case errors.As(err, &tooLarge):
		return failf(http.StatusRequestEntityTooLarge, "the body of the request is larger than %d bytes", tooLarge.Limit)
	case errors.As(err, &limit) && limit.What == "id":
		return say(http.StatusBadRequest, 0) // no entity is too large: the request names an id that no item can have
	case errors.Is(err, engine.ErrTooLarge):
		return say(http.StatusRequestEntityTooLarge, 0)
	case errors.As(err, &document):
		return say(http.StatusBadRequest, 0)
	case errors.Is(err, engine.ErrKeyMismatch):
		return say(http.StatusBadRequest, subKeyMismatch)
	case errors.Is(err, engine.ErrUniqueKey):
		return say(http.StatusConflict, subUniqueKey)
	case errors.Is(err, engine.ErrExists):
		return say(http.StatusConflict, 0)
	case errors.Is(err, engine.ErrNotFound):
		return say(http.StatusNotFound, 0)
	case errors.Is(err, engine.ErrNoContainer), errors.Is(err, errDropped):
		return say(http.StatusNotFound, subOwnerMissing)
	case errors.Is(err, engine.ErrPrecondition):
		return say(http.StatusPreconditionFailed, 0)
	case errors.Is(err, engine.ErrLogicalPartitionFull):
		return say(http.StatusForbidden, subKeyFull)
	case errors.Is(err, engine.ErrConflict):
		return say(statusRetryWith, 0)
	case errors.Is(err, engine.ErrBadContinuation), errors.Is(err, engine.ErrInvalid), errors.Is(err, engine.ErrPositionExpired):
		return say(http.StatusBadRequest, 0)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return say(http.StatusRequestTimeout, 0)
	case errors.Is(err, engine.ErrClosed), errors.Is(err, engine.ErrBusy), errors.Is(err, engine.ErrReadOnly),
		errors.Is(err, engine.ErrDiskFull), errors.Is(err, engine.ErrFailed):
		return say(http.StatusServiceUnavailable, 0)
	}
	return say(http.StatusInternalServerError, 0)
}
