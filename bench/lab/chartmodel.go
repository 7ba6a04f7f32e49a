package main

import (
	"bytes"
	"fmt"

	"github.com/cleavestore/cleave/internal/chart"
	"github.com/cleavestore/cleave/partmap"
)

// Measures of the picture of the model, in pixels.
const (
	modelHeight = 452
	modelLeft   = 30.0
	modelBar    = chartWidth - 2*modelLeft // the key space
	modelNames  = 76.0                     // upper edge of the tenants
	modelPill   = 30.0
	modelSpace  = 218.0 // upper edge of the key space before the split
	modelThick  = 46.0
	modelAfter  = 356.0 // and after it
)

// modelTenants are partition keys whose hashes lie in all partitions, on both sides of the cut.
var modelTenants = []string{"initech", "acme", "tyrell", "wayne", "umbrella", "adatum", "globex"}

// modelParts are the physical partitions of a new container, and their colours.
const modelParts = 3

var modelColours = [modelParts]int{chart.Blue, chart.Purple, chart.Green}

// keyPlace returns where an EPK lies in the part of the key space that keys have: 00 to 3F.
func keyPlace(e *partmap.EPK) float64 { return min(float64(e.Head())/(1<<62), 1) }

// drawModel draws tenants, their hashes, the physical partitions that have these, and the
// same after a split of the second.
func drawModel(b *bytes.Buffer) error {
	c := new(chart.Canvas)
	c.Begin(chart.Size{Width: chartWidth, Height: modelHeight, Alone: true}, "model", "From a tenant to its physical partition, and a split",
		"Each tenant is a logical partition. The hash of its key is a place in the key space, which physical partitions divide. "+
			"A split divides one physical partition between two tenants; no tenant is divided, and the other partitions stay as they are.", "")
	ranges := partmap.Ranges(modelParts)
	cut := partmap.Midpoint(ranges[1])
	c.Heading(modelLeft, 28, "A tenant is one logical partition: its key decides where all its documents lie")
	c.Text(modelLeft, 52, 12, "start", "t-soft", `{"id":"42", "tenant":"acme", …}   →   partition key "acme"   →   hash of 16 bytes, as in Azure Cosmos DB   →   physical partition`)

	step := modelBar / float64(len(modelTenants))
	spaceX := func(place float64) float64 { return modelLeft + place*modelBar }
	part := func(place float64) int {
		for i := range ranges {
			if place < keyPlace(&ranges[i].Max) {
				return i
			}
		}
		return len(ranges) - 1
	}
	for i, name := range modelTenants {
		key := partmap.String(name)
		epk := key.EPK()
		place := keyPlace(&epk)
		x0, x1, colour := modelLeft+(float64(i)+0.5)*step, spaceX(place), modelColours[part(place)]
		top := modelNames + modelPill
		fmt.Fprintf(c, `<path class="line s%d" stroke-width="1.6" stroke-opacity="0.75" d="M%.1f %.1fC%.1f %.1f %.1f %.1f %.1f %.1f"/>`+"\n",
			colour, x0, top, x0, top+58, x1, modelSpace-64, x1, modelSpace)
		fmt.Fprintf(c, `<rect class="f%d" fill-opacity="0.16" x="%.1f" y="%.1f" width="%.1f" height="%.1f" rx="15"/>`+"\n", colour, x0-step/2+7, modelNames, step-14, modelPill)
		fmt.Fprintf(c, `<rect class="s%d" fill="none" stroke-width="1.4" x="%.1f" y="%.1f" width="%.1f" height="%.1f" rx="15"/>`+"\n", colour, x0-step/2+7, modelNames, step-14, modelPill)
		c.Text(x0, modelNames+20, 14, "middle", "t-ink", name)
	}

	bar := func(y float64, name string, lower, upper *partmap.EPK, colour int, fresh bool) {
		x0, x1 := spaceX(keyPlace(lower)), spaceX(keyPlace(upper))
		opacity := 0.28
		if fresh {
			opacity = 0.5
		}
		fmt.Fprintf(c, `<rect class="f%d" fill-opacity="%g" x="%.1f" y="%.1f" width="%.1f" height="%.1f" rx="4"/>`+"\n", colour, opacity, x0+1, y, x1-x0-2, modelThick)
		fmt.Fprintf(c, `<text x="%.1f" y="%.1f" font-size="15" font-weight="600" text-anchor="middle" class="t-ink">%s</text>`+"\n", (x0+x1)/2, y+29, name)
	}
	bound := func(y float64, e *partmap.EPK, text string) {
		x := spaceX(keyPlace(e))
		anchor := "middle"
		switch text {
		case "00":
			anchor = "start"
		case "3F…FF":
			anchor = "end"
		}
		c.Text(x, y+modelThick+16, 12, anchor, "t-soft", text)
	}
	dots := func(y float64) {
		for _, name := range modelTenants {
			key := partmap.String(name)
			epk := key.EPK()
			place := keyPlace(&epk)
			fmt.Fprintf(c, `<circle class="f%d g-halo" stroke-width="1.5" cx="%.1f" cy="%.1f" r="4.5"><title>%s: %.8s…</title></circle>`+"\n",
				modelColours[part(place)], spaceX(place), y, chart.Escape(name), epk.String())
		}
	}
	for i := range ranges {
		bar(modelSpace, fmt.Sprintf("P%d", i+1), &ranges[i].Min, &ranges[i].Max, modelColours[i], false)
		text := shortHex(&ranges[i].Min)
		bound(modelSpace, &ranges[i].Min, text)
	}
	end := partmap.MaxEPK()
	bound(modelSpace, &end, "3F…FF")
	dots(modelSpace)

	// The split: the second partition becomes two, which together have its range.
	x0, x1, xc := spaceX(keyPlace(&ranges[1].Min)), spaceX(keyPlace(&ranges[1].Max)), spaceX(keyPlace(&cut))
	upper := modelSpace + modelThick
	for _, half := range [][2]float64{{x0, xc}, {xc, x1}} {
		fmt.Fprintf(c, `<path class="f%d" fill-opacity="0.1" d="M%.1f %.1fL%.1f %.1fL%.1f %.1fL%.1f %.1fZ"/>`+"\n", modelColours[1],
			half[0]+1, upper+24, half[1]-1, upper+24, half[1]-3, modelAfter-6, half[0]+3, modelAfter-6)
	}
	fmt.Fprintf(c, `<path class="line s%d" stroke-width="1.6" stroke-dasharray="4 3" d="M%.1f %.1fV%.1f"/>`+"\n", chart.Orange, xc, upper+24, modelAfter+modelThick)
	c.Text(modelLeft, upper+50, 12, "start", "t-ink", "P2 is split while it is read and written:")
	c.Text(modelLeft, upper+67, 12, "start", "t-soft", "no call fails, no tenant is divided")
	c.Text(chartWidth-modelLeft, upper+50, 12, "end", "t-soft", "both halves serve from links to")
	c.Text(chartWidth-modelLeft, upper+67, 12, "end", "t-soft", "the same files: nothing is copied first")
	bar(modelAfter, "P1", &ranges[0].Min, &ranges[0].Max, modelColours[0], false)
	bar(modelAfter, "P4", &ranges[1].Min, &cut, modelColours[1], true)
	bar(modelAfter, "P5", &cut, &ranges[1].Max, modelColours[1], true)
	bar(modelAfter, "P3", &ranges[2].Min, &ranges[2].Max, modelColours[2], false)
	for i := range ranges {
		bound(modelAfter, &ranges[i].Min, shortHex(&ranges[i].Min))
	}
	bound(modelAfter, &cut, shortHex(&cut))
	bound(modelAfter, &end, "3F…FF")
	dots(modelAfter)
	c.Text(chartWidth/2, modelHeight-8, 12, "middle", "t-soft", "key space: all hashes, from 00 to 3F…FF; a physical partition has a range of it")
	c.End()
	_, err := b.Write(c.Bytes())
	return err
}

// shortHex returns the first byte of an EPK: 00 for the beginning of the key space.
func shortHex(e *partmap.EPK) string {
	text := e.String()
	if len(text) < 2 {
		return "00"
	}
	return text[:2]
}
