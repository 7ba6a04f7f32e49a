// Package httpserver makes the HTTP servers of pserve and pgate.
package httpserver

import (
	"log/slog"
	"net/http"
	"time"
)

// HeadTimeout is how long the head of a request may take.
const HeadTimeout = 10 * time.Second

// Bounds of slow clients, which hold memory of the requests that are under way.
const (
	readTimeout = time.Minute     // until the body of a request is there
	idleTimeout = 5 * time.Minute // between requests
	// writeTimeout is how long a request may take from its head to the end of the answer.
	writeTimeout = 2 * time.Minute
	maxHead      = 128 << 10
)

// New returns a server that waits for no client for ever.
func New(h http.Handler, logger *slog.Logger) *http.Server {
	return &http.Server{
		Handler: h, ReadHeaderTimeout: HeadTimeout, ReadTimeout: readTimeout, WriteTimeout: writeTimeout, IdleTimeout: idleTimeout,
		MaxHeaderBytes: maxHead, DisableGeneralOptionsHandler: true, ErrorLog: slog.NewLogLogger(logger.Handler(), slog.LevelDebug),
	}
}
