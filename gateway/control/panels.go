package control

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/cleavestore/cleave/console"
)

// panels are the tables that the page has of the server, beside those of the store. They are read
// by requests that have entered the gate.
func (h *Host) panels() []console.Panel {
	return []console.Panel{
		{
			Title: "Faults under way", Heads: []string{"fault", "answer", "meets", "seen", "met"},
			Empty: "none is planted: see POST /control/faults",
			Rows: func(context.Context) (rows [][]string) {
				for _, f := range h.faults.list() {
					if !f.Ended {
						rows = append(rows, []string{fmt.Sprint(f.ID), f.answerText(), f.scopeText(), fmt.Sprint(f.Seen), fmt.Sprint(f.Met)})
					}
				}
				return rows
			},
		},
		{
			Title: "Databases", Heads: []string{"database", "container", "in the store", "throughput"}, Empty: "no container yet",
			Rows: func(context.Context) (rows [][]string) {
				for _, c := range h.plain.Containers() {
					throughput := "of its database, or none"
					if c.Throughput > 0 {
						throughput = fmt.Sprintf("%d RU/s", c.Throughput)
					}
					if c.Autoscale {
						throughput = "up to " + throughput
					}
					rows = append(rows, []string{c.Database, c.Name, c.Store, throughput})
				}
				return rows
			},
		},
		{
			Title: "Clock and checkpoints", Heads: []string{"what", "value"},
			Rows: func(context.Context) [][]string {
				clock := h.clockView()
				names := []string{}
				kept, err := h.place.checkpoints()
				for _, c := range kept {
					names = append(names, c.Name)
				}
				if err != nil {
					names = append(names, err.Error())
				}
				return [][]string{
					{"time of the store", clock.Now.Format("2006-01-02 15:04:05 MST")},
					{"ahead of the system", fmt.Sprintf("%.1f s", clock.Ahead/1000)},
					{"checkpoints", cmp.Or(strings.Join(names, ", "), "none")},
				}
			},
		},
	}
}

// answerText says what a fault answers.
func (f *Fault) answerText() string {
	var parts []string
	if f.Status != 0 {
		text := fmt.Sprint(f.Status)
		if f.SubStatus != 0 {
			text += fmt.Sprintf("/%d", f.SubStatus)
		}
		parts = append(parts, text)
	}
	if f.Latency > 0 {
		parts = append(parts, fmt.Sprintf("%g ms late", f.Latency))
	}
	if f.After {
		parts = append(parts, "after it was carried out")
	}
	return strings.Join(parts, ", ")
}

// scopeText says which requests a fault meets.
func (f *Fault) scopeText() string {
	parts := []string{cmp.Or(strings.Join(f.Operations, ", "), "all operations")}
	if f.Database != "" {
		parts = append(parts, "of "+strings.TrimSuffix(f.Database+"/"+f.Container, "/"))
	}
	if f.Partition != "" {
		parts = append(parts, "in partition "+f.Partition)
	}
	if f.Share > 0 && f.Share < 1 {
		parts = append(parts, fmt.Sprintf("%g %%", 100*f.Share))
	}
	if f.Count > 0 {
		parts = append(parts, fmt.Sprintf("%d times", f.Count))
	}
	return strings.Join(parts, ", ")
}
