package main

import (
	"expvar"
	"net/http"
	"net/http/pprof"
	"sync/atomic"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/metrics"
)

// measured is the store that /debug/vars shows. A name can be published once in a process,
// and tests start the server several times.
var measured atomic.Pointer[engine.DB]

func init() {
	expvar.Publish("cleave", expvar.Func(func() any {
		if db := measured.Load(); db != nil {
			return db.Metrics()
		}
		return metrics.Snapshot{}
	}))
}

// newDebugHandler serves metrics and profiles. They show names of containers and how much
// is in them: let only operators reach the address.
func newDebugHandler(db *engine.DB) http.Handler {
	measured.Store(db)
	mux := http.NewServeMux()
	mux.Handle("GET /debug/vars", expvar.Handler())
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	return mux
}
