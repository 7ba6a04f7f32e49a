package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/internal/cli"
	"github.com/cleavestore/cleave/replica/cluster"
)

type indexCommand struct {
	Dir       string `arg:"" help:"Directory that init has made."`
	Container string `arg:"" help:"Name of the container."`
	Policy    string `arg:"" help:"Index policy, as JSON; all: everything; none: nothing."`
}

// Run implements the command.
func (c *indexCommand) Run(ctx context.Context, e *environment) error {
	policy, err := parseIndex(c.Policy)
	if err != nil {
		return cli.Usage(err)
	}
	cl, _, err := openClient(c.Dir)
	if err != nil {
		return err
	}
	defer cl.Close()
	if err = cl.SetIndexPolicy(ctx, c.Container, policy); err != nil {
		return err
	}
	fmt.Fprintf(e.stdout, "container %q has another index policy. The nodes index their files in the background; queries are right meanwhile\n", c.Container)
	return nil
}

// parseIndex reads an index policy; "" and none: that of nothing.
func parseIndex(text string) (p engine.IndexPolicy, err error) {
	switch text {
	case "", "none":
		return p, nil
	case "all":
		return engine.IndexAll(), nil
	}
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	if err = d.Decode(&p); err != nil {
		return p, fmt.Errorf("index policy %q: %w", text, err)
	}
	if _, err = d.Token(); err != io.EOF {
		return p, fmt.Errorf("index policy %q: something follows its end", text)
	}
	return p, cluster.CheckIndex(p)
}
