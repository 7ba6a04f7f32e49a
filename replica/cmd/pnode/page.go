package main

import (
	"encoding/json"
	"html/template"
	"net"
	"net/http"
	"time"

	"github.com/cleavestore/cleave/replica/host"
	"github.com/cleavestore/cleave/replica/meta/agent"
)

// nodeView is what the page of a node shows.
type nodeView struct {
	host.Status
	Metadata *agent.Status `json:"metadata,omitempty"`
}

func viewOf(h *host.Host, m *nodeMetadata) nodeView {
	v := nodeView{Status: h.Status()}
	if m != nil {
		s := m.agent.Status()
		v.Metadata = &s
	}
	return v
}

// page shows the status of a node. It loads nothing from elsewhere.
var page = template.Must(template.New("page").Parse(`<!doctype html>
<html lang="en"><meta charset="utf-8"><meta http-equiv="refresh" content="2"><title>Node {{.Node}}</title>
<style>body{font:14px/1.4 system-ui,sans-serif;margin:2em;max-width:80em}table{border-collapse:collapse;margin:1em 0}th,td{text-align:left;padding:.2em .8em;border-bottom:1px solid #ccc}caption{text-align:left;font-weight:bold}td.n{text-align:right}.bad{color:#b00020;font-weight:bold}</style>
<h1>Node {{.Node}}</h1>
<p>It leads {{.Leads}} of {{len .Groups}} groups{{if .Leaderless}}, <span class="bad">{{.Leaderless}} have no leader that it knows of</span>{{end}}.
{{if .Stalled}}<span class="bad">A sync of its Raft log takes long.</span>{{end}} {{with .Failure}}<span class="bad">{{.}}</span>{{end}}</p>
{{with .Metadata}}<p>{{if .Lease}}It holds its lease.{{else}}<span class="bad">It holds no lease: the metadata store does not answer, or another process has the id of the node. Reads and writes go on; moves and automatic splits wait.</span>{{end}}
{{if .Plans}}It plans.{{end}} {{len .Nodes}} nodes hold leases; the map has {{.Groups}} groups.{{with .Draining}} Nodes {{.}} are being drained.{{end}}</p>
{{with .Steps}}<table><caption>Planned steps</caption><tr><th>group<th>step<th>node<th>replica
{{range .}}<tr><td>{{.Group}}<td>{{.Kind}}<td>{{if .Node}}{{.Node}}{{end}}<td>{{if .Replica}}{{.Replica}}{{end}}
{{end}}</table>{{end}}{{end}}
<table><caption>Other nodes</caption><tr><th>node<th>address<th>connection<th>since
{{range .Peers}}<tr><td>{{.Node}}<td>{{.Address}}<td{{if not .Connected}} class="bad"{{end}}>{{if .Connected}}connected{{else}}none {{.Error}}{{end}}<td>{{.Since.Format "15:04:05"}}
{{end}}</table>
<table><caption>Groups</caption><tr><th>group<th>container<th>from<th>leader<th>voters<th>readers<th>moving to<th>lacks<th>term<th>applied<th>behind<th>bytes<th>RU/s<th>
{{range .Groups}}<tr><td>{{.ID}}<td>{{.Container}}<td>{{.Min}}<td>{{if .Leader}}node {{.Leader}}{{else}}<span class="bad">none</span>{{end}}<td>{{.Replicas}}<td>{{with .Readers}}{{.}}{{end}}<td>{{if .Incoming}}node {{.Incoming}}{{end}}<td class="n">{{with .Lacks}}{{.}}{{end}}<td class="n">{{.Term}}<td class="n">{{.Applied}}<td class="n">{{.Behind}}<td class="n">{{.Bytes}}<td class="n">{{printf "%.0f" .Load}}<td class="bad">{{.Error}}
{{end}}</table>`))

// servePage serves the page and /status.json.
func servePage(address string, h *host.Host, m *nodeMetadata) (*http.Server, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_ = page.Execute(w, viewOf(h, m)) // the browser has gone
	})
	mux.HandleFunc("GET /status.json", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(viewOf(h, m))
	})
	s := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	go func() { _ = s.Serve(l) }() // ends with Close
	return s, nil
}
