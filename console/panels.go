package console

import (
	"context"
	"net/http"
)

// Panel is a table on the page of what the program knows that serves it.
type Panel struct {
	Title string
	Heads []string // of the columns
	// Rows returns what the table shows, as text. The page shows the first hundred. It is called
	// once a second for each page that is open, concurrently.
	Rows func(context.Context) [][]string
	// Empty is shown in the place of a table without rows. "": none.
	Empty string
}

// panelView is a panel in the answer of api/panels.
type panelView struct {
	Title string     `json:"title"`
	Heads []string   `json:"heads"`
	Rows  [][]string `json:"rows"`
	Total int        `json:"total"` // rows that there are
	Empty string     `json:"empty"`
}

func (h *handler) servePanels(r *http.Request) (any, error) {
	all := make([]panelView, len(h.opts.Panels))
	for i, p := range h.opts.Panels {
		rows := p.Rows(r.Context())
		all[i] = panelView{p.Title, append([]string{}, p.Heads...), cut(rows, 0, listed), len(rows), p.Empty}
		if p.Empty == "" {
			all[i].Empty = "none"
		}
	}
	return all, nil
}
