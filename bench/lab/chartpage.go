package main

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/cleavestore/cleave/internal/chromium"
	"github.com/cleavestore/cleave/internal/harness"
)

// chartPageCommand takes a picture of a page in a browser.
type chartPageCommand struct {
	URL    string        `arg:"" help:"Address of the page."`
	PNG    string        `name:"png" default:"-" placeholder:"FILE" help:"Where the picture goes; default -, standard output."`
	Width  int           `default:"1280" placeholder:"PIXELS" help:"Width of the window (${default})."`
	Height int           `placeholder:"PIXELS" help:"Height of the picture; default that of the whole page."`
	Dark   bool          `help:"With the colours of a dark screen."`
	After  time.Duration `default:"30s" placeholder:"TIME" help:"How long the page is open before the picture is taken (${default})."`
}

// Help returns what follows the short help.
func (*chartPageCommand) Help() string {
	return `
Needs Chromium or Chrome, which runs without a window.

Examples:

    lab chart page http://localhost:8080 --png docs/pictures/console.png --height 1060`
}

// Run takes the picture.
func (c *chartPageCommand) Run(ctx context.Context, env *harness.Environment) (err error) {
	path := chromium.Find()
	if path == "" {
		return errors.New("no Chromium is installed")
	}
	b, err := chromium.Start(ctx, path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	p, err := b.Open(ctx, chromium.View{Width: c.Width, Height: max(c.Height, 900), Dark: c.Dark})
	if err != nil {
		return err
	}
	if err = p.Go(ctx, c.URL); err != nil {
		return err
	}
	select {
	case <-time.After(c.After):
	case <-ctx.Done():
		return ctx.Err()
	}
	picture, err := p.Picture(ctx, c.Height)
	if err != nil {
		return err
	}
	to := svgFlag{SVG: c.PNG}
	return to.write(env, func(out *bytes.Buffer) error {
		_, writeErr := out.Write(picture)
		return writeErr
	})
}
