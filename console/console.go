package console

import (
	"context"
	"embed"
	"io/fs"
	"net/http"
	"strings"
	"time"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/internal/pageapi"
)

// Access is what a request asks for. Each access includes those before it.
type Access uint8

// Accesses.
const (
	AccessPage      Access = iota // the page itself, which has no data
	AccessWatch                   // figures, names of containers, partition keys
	AccessDocuments               // documents and results of queries
	AccessChange                  // a change of the store
)

// String returns "page", "watch", "documents" or "change".
func (a Access) String() string {
	if names := [...]string{"page", "watch", "documents", "change"}; int(a) < len(names) {
		return names[a]
	}
	return "unknown"
}

// Options are the options of a Handler. Nil means none.
type Options struct {
	// Title stands at the top of the page. Empty: the last part of the store's directory.
	Title string
	// Prefix is cut off the paths of requests, as http.StripPrefix does it. Other paths are
	// not found. The links of the page are relative: it works below any path.
	Prefix string
	// Authorize, if not nil, decides about each request: an error refuses it with status
	// 403 and the error's text. It is called before anything else is done. Without it
	// everybody who reaches the handler may see everything.
	Authorize func(*http.Request, Access) error
	// Hosts, if not nil, are the Host headers that are served, ports included: a guard
	// against pages elsewhere that reach this address by a name of their own (DNS
	// rebinding). LocalHosts returns those of a local address.
	Hosts []string
	// Events, if not nil, has the recent events of the store: see Events.Listener.
	Events *Events
	// AllowSplit lets people split physical partitions from the page.
	AllowSplit bool
	// NoDocuments leaves out documents and queries.
	NoDocuments bool
	// Panels are tables of the program's own on the page. They need AccessWatch.
	Panels []Panel
	// QueryTimeout bounds a query, and every other reading of documents. 0: 10 seconds.
	QueryTimeout time.Duration
	// RefreshEvery, if not 0, is how often Refresh is called at most, while a page is open:
	// for a store that is open ReadOnly beside a writer.
	RefreshEvery time.Duration
	// Refresh returns a newer state of a store that is open ReadOnly, or the same one. The
	// handler closes the store that it replaces, except the one that Handler was given,
	// when no request uses it any more.
	Refresh func(context.Context) (*engine.DB, error)
}

//go:embed static
var embedded embed.FS

// static are the files of the page.
var static = func() fs.FS {
	files, err := fs.Sub(embedded, "static")
	if err != nil {
		panic(err) // the directory is part of the program
	}
	return files
}()

// handler serves the page of one store.
type handler struct {
	opts    Options
	store   *store
	watcher *watcher
	largest largestKeys
	refused refusedKeys
	readers chan struct{} // a place for each reading of documents under way
	mux     *http.ServeMux
}

// readersAtOnce bounds queries, scans and the like that run at one time.
const readersAtOnce = 4

// Handler returns the page about a store. It needs no Close. After the store is closed it
// goes on to say so.
func Handler(db *engine.DB, o *Options) http.Handler {
	h := &handler{readers: make(chan struct{}, readersAtOnce), mux: http.NewServeMux()}
	if o != nil {
		h.opts = *o
	}
	if h.opts.QueryTimeout <= 0 {
		h.opts.QueryTimeout = 10 * time.Second
	}
	h.opts.Prefix = strings.TrimSuffix(h.opts.Prefix, "/")
	h.store = newStore(db, h.opts.Refresh, h.opts.RefreshEvery)
	h.watcher = newWatcher()
	h.page()
	h.get("api/store", AccessWatch, h.serveStore)
	h.get("api/containers", AccessWatch, h.serveContainers)
	h.get("api/container", AccessWatch, h.serveContainer)
	h.get("api/partitions", AccessWatch, h.servePartitions)
	h.get("api/keys", AccessWatch, h.serveKeys)
	h.get("api/cut", AccessWatch, h.serveCut)
	h.get("api/panels", AccessWatch, h.servePanels)
	h.get("api/logical", AccessWatch, h.serveLogical)
	if !h.opts.NoDocuments {
		h.get("api/items", AccessDocuments, h.serveItems)
		h.get("api/item", AccessDocuments, h.serveItem)
		h.post("api/query", AccessDocuments, h.serveQuery)
	}
	if h.opts.AllowSplit {
		h.post("api/split", AccessChange, h.serveSplit)
	}
	h.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		pageapi.WriteError(w, failure{Status: http.StatusNotFound, Kind: "not_found", Text: "no such page"})
	})
	return h
}

// ServeHTTP implements http.Handler.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	pageapi.Secure(w.Header())
	if !pageapi.HostAllowed(h.opts.Hosts, r.Host) {
		pageapi.WriteError(w, failure{Status: http.StatusMisdirectedRequest, Kind: "host", Text: "this host name is not served here"})
		return
	}
	path, ok := strings.CutPrefix(r.URL.Path, h.opts.Prefix)
	if !ok || path != "" && path[0] != '/' {
		pageapi.WriteError(w, failure{Status: http.StatusNotFound, Kind: "not_found", Text: "no such page"})
		return
	}
	if path == "" { // relative links need the slash
		at := r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:] + "/"
		if h.opts.Prefix == "" {
			at = "/"
		}
		w.Header().Set("Location", at)
		w.WriteHeader(http.StatusTemporaryRedirect)
		return
	}
	inner := r.Clone(r.Context())
	inner.URL.Path, inner.URL.RawPath = path, ""
	h.mux.ServeHTTP(w, inner)
}

// page serves the files of the page.
func (h *handler) page() {
	entries, err := fs.ReadDir(static, ".")
	if err != nil {
		panic(err) // the directory is part of the program
	}
	for _, e := range entries {
		name, path := e.Name(), e.Name()
		if name == "index.html" {
			path = "{$}"
		}
		h.handle(http.MethodGet, path, func(w http.ResponseWriter, r *http.Request) {
			if !h.authorized(w, r, AccessPage) {
				return
			}
			http.ServeFileFS(w, r, static, name)
		})
	}
}

// handle serves a path for one method, and answers requests with others. GET serves HEAD too.
func (h *handler) handle(method, path string, fn http.HandlerFunc) {
	allow := method
	if method == http.MethodGet {
		allow += ", " + http.MethodHead
	}
	h.mux.HandleFunc(method+" /"+path, fn)
	h.mux.HandleFunc("/"+path, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Allow", allow)
		pageapi.WriteError(w, failure{Status: http.StatusMethodNotAllowed, Kind: "method", Text: "this page takes " + allow + " only"})
	})
}

// answer is what a part of the API returns: a value for JSON, or an error.
type answer func(r *http.Request) (any, error)

// LocalHosts returns the Host headers by which a listener at a local address is reached:
// for 127.0.0.1:8080 also localhost:8080 and [::1]:8080. For an address that is not local
// it returns that alone.
func LocalHosts(addr string) []string { return pageapi.LocalHosts(addr) }

func (h *handler) get(path string, access Access, fn answer) {
	h.handle(http.MethodGet, path, func(w http.ResponseWriter, r *http.Request) {
		if err := pageapi.CheckRead(r); err != nil {
			pageapi.WriteError(w, pageapi.FailureOf(err))
			return
		}
		h.serve(w, r, access, fn)
	})
}

func (h *handler) post(path string, access Access, fn answer) {
	h.handle(http.MethodPost, path, func(w http.ResponseWriter, r *http.Request) {
		if err := pageapi.CheckChange(w, r); err != nil {
			pageapi.WriteError(w, pageapi.FailureOf(err))
			return
		}
		h.serve(w, r, access, fn)
	})
}

func (h *handler) serve(w http.ResponseWriter, r *http.Request, access Access, fn answer) {
	if !h.authorized(w, r, access) {
		return
	}
	value, err := fn(r)
	if err != nil {
		pageapi.WriteError(w, pageapi.FailureOf(err))
		return
	}
	pageapi.WriteJSON(w, http.StatusOK, value)
}

func (h *handler) authorized(w http.ResponseWriter, r *http.Request, access Access) bool {
	if h.opts.Authorize == nil {
		return true
	}
	if err := h.opts.Authorize(r, access); err != nil {
		pageapi.WriteError(w, failure{Status: http.StatusForbidden, Kind: "forbidden", Text: err.Error()})
		return false
	}
	return true
}

// reading waits for a place among the readers, and bounds the time of a request. The
// returned function gives the place back.
func (h *handler) reading(ctx context.Context) (context.Context, func(), error) {
	ctx, cancel := context.WithTimeout(ctx, h.opts.QueryTimeout)
	select {
	case h.readers <- struct{}{}:
		return ctx, func() { cancel(); <-h.readers }, nil
	case <-ctx.Done():
		cancel()
		return nil, nil, ctx.Err()
	}
}
