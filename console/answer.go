package console

import (
	"math"
	"net/url"
	"strconv"
	"time"

	"github.com/cleavestore/cleave/internal/pageapi"
)

// failure is an error as the page gets it.
type failure = pageapi.Failure

// number returns a whole number that a request has, def if it has none.
func number(q url.Values, name string, def, least, most int) (int, error) {
	text := q.Get(name)
	if text == "" {
		return def, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < least || n > most {
		return 0, pageapi.BadRequest(name + ": want a number from " + strconv.Itoa(least) + " to " + strconv.Itoa(most))
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
