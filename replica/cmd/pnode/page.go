package main

import (
	"encoding/json"
	"html/template"
	"net"
	"net/http"
	"time"

	"github.com/cleavestore/cleave/replica/host"
)

// page shows the status of a node. It loads nothing from elsewhere.
var page = template.Must(template.New("page").Parse(`<!doctype html>
<html lang="en"><meta charset="utf-8"><meta http-equiv="refresh" content="2"><title>Node {{.Node}}</title>
<style>body{font:14px/1.4 system-ui,sans-serif;margin:2em;max-width:80em}table{border-collapse:collapse;margin:1em 0}th,td{text-align:left;padding:.2em .8em;border-bottom:1px solid #ccc}td.n{text-align:right}.bad{color:#b00020;font-weight:bold}</style>
<h1>Node {{.Node}}</h1>
<p>It leads {{.Leads}} of {{len .Groups}} groups{{if .Leaderless}}, <span class="bad">{{.Leaderless}} have no leader that it knows of</span>{{end}}.
{{if .Stalled}}<span class="bad">A sync of its Raft log takes long.</span>{{end}} {{with .Failure}}<span class="bad">{{.}}</span>{{end}}</p>
<table><caption>Other nodes</caption><tr><th>node<th>address<th>connection<th>since
{{range .Peers}}<tr><td>{{.Node}}<td>{{.Address}}<td{{if not .Connected}} class="bad"{{end}}>{{if .Connected}}connected{{else}}none {{.Error}}{{end}}<td>{{.Since.Format "15:04:05"}}
{{end}}</table>
<table><caption>Groups</caption><tr><th>group<th>container<th>from<th>leader<th>term<th>applied<th>log, bytes<th>
{{range .Groups}}<tr><td>{{.ID}}<td>{{.Container}}<td>{{.Min}}<td>{{if .Leader}}node {{.Leader}}{{else}}<span class="bad">none</span>{{end}}<td class="n">{{.Term}}<td class="n">{{.Applied}}<td class="n">{{.LogBytes}}<td class="bad">{{.Error}}
{{end}}</table>`))

// servePage serves the page and /status.json.
func servePage(address string, h *host.Host) (*http.Server, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_ = page.Execute(w, h.Status()) // the browser has gone
	})
	mux.HandleFunc("GET /status.json", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(h.Status())
	})
	s := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	go func() { _ = s.Serve(l) }() // ends with Close
	return s, nil
}
