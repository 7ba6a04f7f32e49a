package main

import (
	"context"
	"encoding/json"
	"time"

	"github.com/cleavestore/cleave/replica/client"
)

type changesCommand struct {
	Dir       string `arg:"" help:"Directory that init has made."`
	Container string `arg:"" help:"Container."`
	From      string `help:"Where to begin: start, now, time: and a time by RFC 3339, or a position that the command has printed." default:"start"`
	Follow    bool   `help:"Wait for further changes, until the command is interrupted."`
	Weak      bool   `help:"Ask any replica, and not the leaders. It may lack the newest changes."`
}

// changeLine is what the command prints of an item.
type changeLine struct {
	Key      string          `json:"key"` // the partition key
	ID       string          `json:"id"`
	Seq      uint64          `json:"seq"`
	ETag     string          `json:"etag"`
	Modified time.Time       `json:"modified"`
	Item     json.RawMessage `json:"item"`
}

// positionLine is what it prints behind each page.
type positionLine struct {
	Position string `json:"position"`
	CaughtUp bool   `json:"caught_up,omitempty"`
}

// Run implements the command.
func (c *changesCommand) Run(ctx context.Context, e *environment) error {
	cl, _, err := openClient(c.Dir)
	if err != nil {
		return err
	}
	defer cl.Close()
	out := json.NewEncoder(e.stdout)
	for p, failed := range cl.Changes(ctx, c.Container, c.From, &client.ChangeOptions{Follow: c.Follow, Weak: c.Weak}) {
		if failed != nil {
			return failed
		}
		for i := range p.Items {
			it := &p.Items[i]
			if err = out.Encode(changeLine{it.Key.String(), it.ID, it.Seq, it.ETag.String(), it.Modified.UTC(), it.Body}); err != nil {
				return err
			}
		}
		if err = out.Encode(positionLine{p.Position, p.CaughtUp}); err != nil {
			return err
		}
	}
	return nil
}
