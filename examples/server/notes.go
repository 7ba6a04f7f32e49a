package main

import (
	"bufio"
	"crypto/rand"
	"encoding/json"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"unicode/utf8"

	"github.com/cleavestore/cleave/engine"
)

// note is a document. User and ID come from the address of a request: what its
// body says of them does not count.
type note struct {
	User  string   `json:"user"` // the partition key
	ID    string   `json:"id"`
	Title string   `json:"title"`
	Text  string   `json:"text,omitempty"`
	Tags  []string `json:"tags,omitempty"`
}

const (
	maxBody  = 256 << 10 // bytes of a request
	pageSize = 20        // notes of a page, unless the request says otherwise
	maxPage  = 1000

	notText = badRequest("user and id: UTF-8")
)

// service answers requests. Handlers return an error or have answered; what an
// error means to the client is decided in one place, fail.
type service struct {
	db    *engine.DB
	notes *engine.Container
}

// newHandler returns the routes of the service.
func newHandler(db *engine.DB, notes *engine.Container) http.Handler {
	s := &service{db: db, notes: notes}
	mux := http.NewServeMux()
	for pattern, handler := range map[string]func(http.ResponseWriter, *http.Request) error{
		"GET /users/{user}/notes":              s.list,
		"POST /users/{user}/notes":             s.create,
		"GET /users/{user}/notes/{id}":         s.read,
		"PUT /users/{user}/notes/{id}":         s.put,
		"DELETE /users/{user}/notes/{id}":      s.delete,
		"POST /users/{user}/notes/{id}/rename": s.rename,
		"GET /users/{user}/usage":              s.usage,
		"GET /notes.ndjson":                    s.export,
		"GET /stats":                           s.stats,
	} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			if err := handler(w, r); err != nil {
				fail(w, r, err)
			}
		})
	}
	return mux
}

// create stores a new note, under an id of its own unless ?id= names one. If
// that is taken it is a conflict.
func (s *service) create(w http.ResponseWriter, r *http.Request) error {
	id := r.URL.Query().Get("id")
	if id == "" {
		id = rand.Text()
	}
	doc, err := noteFrom(w, r, id)
	if err != nil {
		return err
	}
	meta, err := s.notes.Create(r.Context(), doc, nil)
	if err != nil {
		return err
	}
	w.Header().Set("Location", address(r.PathValue("user"), id))
	describe(w, meta)
	w.WriteHeader(http.StatusCreated)
	return nil
}

// put stores a note, whether or not there is one. With If-Match it is written
// only if nobody has changed it since the client read it.
func (s *service) put(w http.ResponseWriter, r *http.Request) error {
	match, err := etag(r, "If-Match")
	if err != nil {
		return err
	}
	doc, err := noteFrom(w, r, r.PathValue("id"))
	if err != nil {
		return err
	}
	meta, err := s.notes.Upsert(r.Context(), doc, &engine.WriteOptions{IfMatch: match})
	if err != nil {
		return err
	}
	describe(w, meta)
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// read returns a note as it was stored, or, with If-None-Match, only the news
// that it is still the same.
func (s *service) read(w http.ResponseWriter, r *http.Request) error {
	known, err := etag(r, "If-None-Match")
	if err != nil {
		return err
	}
	item, err := s.notes.ReadIf(r.Context(), userKey(r), r.PathValue("id"), known)
	if err != nil {
		return err
	}
	describe(w, item.Meta)
	w.Header().Set("Content-Type", "application/json")
	_, err = w.Write(item.Body)
	return broken(err)
}

// delete deletes a note, with If-Match only the version that the client knows.
func (s *service) delete(w http.ResponseWriter, r *http.Request) error {
	match, err := etag(r, "If-Match")
	if err != nil {
		return err
	}
	err = s.notes.Delete(r.Context(), userKey(r), r.PathValue("id"), &engine.WriteOptions{IfMatch: match})
	if err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// rename moves a note to the id ?to=: a transaction, since two items change.
func (s *service) rename(w http.ResponseWriter, r *http.Request) error {
	to := r.URL.Query().Get("to")
	if !utf8.ValidString(to) {
		return notText
	}
	err := s.notes.Update(r.Context(), userKey(r), func(tx *engine.Tx) error {
		item, err := tx.Read(r.PathValue("id"))
		if err != nil {
			return err
		}
		var n note
		if err = json.Unmarshal(item.Body, &n); err != nil {
			return err
		}
		n.ID = to
		doc, err := json.Marshal(n)
		if err != nil {
			return err
		}
		if err := tx.Create(doc, nil); err != nil {
			return err
		}
		return tx.Delete(item.ID, nil)
	})
	if err != nil {
		return err
	}
	w.Header().Set("Location", address(r.PathValue("user"), to))
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// list returns a page of a user's notes, with ?tag= those that have it, and the
// address of the next page. The continuation in it holds good while partitions
// split, and after a restart: the server remembers nothing between pages.
func (s *service) list(w http.ResponseWriter, r *http.Request) error {
	asked := r.URL.Query()
	q := engine.Query{Limit: pageSize, Continue: asked.Get("after")}
	if text := asked.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > maxPage {
			return badRequest("limit: a number from 1 to " + strconv.Itoa(maxPage))
		}
		q.Limit = n
	}
	if tag := asked.Get("tag"); tag != "" {
		q.Where = engine.ArrayContains("/tags", tag)
	}
	result := s.notes.Query(r.Context(), engine.OnePartition(userKey(r)), q)
	var page struct {
		Notes []json.RawMessage `json:"notes"`
		Next  string            `json:"next,omitempty"`
	}
	page.Notes = []json.RawMessage{}
	for item, err := range result.All() {
		if err != nil {
			return err
		}
		page.Notes = append(page.Notes, item.Body)
	}
	if after := result.Continue(); after != "" {
		asked.Set("after", after)
		page.Next = r.URL.EscapedPath() + "?" + asked.Encode()
	}
	w.Header().Set("Content-Type", "application/json")
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false) // leave & in addresses as it is
	return broken(encoder.Encode(page))
}

// export streams all notes of all users, one a line, however many there are:
// neither the server nor the engine holds more than a few of them. Writers go on
// meanwhile.
func (s *service) export(w http.ResponseWriter, r *http.Request) error {
	w.Header().Set("Content-Type", "application/x-ndjson")
	out, begun := bufio.NewWriterSize(w, 64<<10), false
	for item, err := range s.notes.ScanAll(r.Context(), &engine.ScanOptions{Borrow: true}) {
		if err != nil && !begun {
			return err // the scan was refused, and nothing is sent
		}
		if err != nil {
			return broken(err)
		}
		begun = true
		// json.Marshal has written the notes, without line breaks.
		out.Write(item.Body) // bufio keeps the first error
		if err := out.WriteByte('\n'); err != nil {
			return broken(err)
		}
	}
	return broken(out.Flush())
}

// usage tells a user what the notes take and may take. The engine counts it for each
// partition key, and reads no note for it.
func (s *service) usage(w http.ResponseWriter, r *http.Request) error {
	used, err := s.notes.Usage(r.Context(), userKey(r), nil)
	if err != nil {
		return err
	}
	answer := struct {
		Bytes     int64   `json:"bytes"` // at most: deleted versions count for a while
		MaxBytes  int64   `json:"max_bytes"`
		Units     float64 `json:"units"` // since the server was started
		PerSecond float64 `json:"max_units_per_second,omitzero"`
		Refused   int64   `json:"refused"` // requests
	}{used.Bytes, used.Limits.Bytes, math.Round(100*used.Units) / 100, used.Limits.Throughput, used.Throttled}
	if answer.PerSecond == uncapped {
		answer.PerSecond = 0
	}
	w.Header().Set("Content-Type", "application/json")
	return broken(json.NewEncoder(w).Encode(answer))
}

// stats describes the store for people.
func (s *service) stats(w http.ResponseWriter, r *http.Request) error {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, err := w.Write([]byte(s.db.Stats().String()))
	return broken(err)
}

// noteFrom reads the note in the body of a request, as the document to store.
func noteFrom(w http.ResponseWriter, r *http.Request, id string) ([]byte, error) {
	decoder := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody))
	decoder.DisallowUnknownFields()
	var n note
	if err := decoder.Decode(&n); err != nil {
		return nil, bodyError(err)
	}
	n.User, n.ID = r.PathValue("user"), id
	if !utf8.ValidString(n.User) || !utf8.ValidString(id) { // which JSON cannot tell from others
		return nil, notText
	}
	return json.Marshal(n)
}

// userKey returns the partition key of a request.
func userKey(r *http.Request) engine.PartitionKey { return engine.StringKey(r.PathValue("user")) }

// etag returns the etag in a header, zero if there is none: the engine's etags
// are in the form that HTTP wants.
func etag(r *http.Request, header string) (engine.ETag, error) {
	return engine.ParseETag(r.Header.Get(header))
}

// describe tells about a version in headers.
func describe(w http.ResponseWriter, meta engine.Meta) {
	w.Header().Set("Etag", meta.ETag.String())
	w.Header().Set("Request-Charge", strconv.FormatFloat(meta.Charge, 'f', 2, 64))
}

// address returns the path of a note.
func address(user, id string) string {
	return "/users/" + url.PathEscape(user) + "/notes/" + url.PathEscape(id)
}
