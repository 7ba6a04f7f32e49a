package chart

import (
	"fmt"
	"strings"
)

// Colours of lines and marks, by their place in the palette. Each pair differs in lightness
// as well as in hue, so that they differ for people who see fewer colours.
const (
	Blue = iota
	Orange
	Green
	Purple
	Amber
	Grey
	Sky
	Ink
	colours
)

var light = [colours]string{"#0067b1", "#c44e00", "#00805b", "#9a3d86", "#a97800", "#6b7480", "#2a9fc9", "#1f2328"}
var dark = [colours]string{"#5ab4f5", "#ff9452", "#3ecf9e", "#e79bd3", "#f0c543", "#9aa4af", "#9be1f7", "#e6edf3"}

// Levels is how many colours a heat map has, beside that of nothing.
const Levels = 16

// ramp is a row of colours between which others lie.
type ramp [][3]uint8

var (
	heatLight = ramp{{255, 243, 224}, {253, 212, 158}, {252, 141, 89}, {215, 48, 31}, {127, 0, 0}, {59, 0, 8}}
	heatDark  = ramp{{40, 18, 84}, {96, 21, 110}, {150, 38, 103}, {203, 65, 73}, {237, 105, 37}, {251, 155, 6}, {247, 209, 61}, {252, 255, 164}}
	// Sizes run from an empty partition to the fullest.
	sizes = ramp{{226, 236, 245}, {158, 197, 226}, {86, 148, 199}, {37, 99, 160}, {16, 56, 106}}
)

// at returns the colour at a part of the way along the ramp.
func (r ramp) at(part float64) (c [3]int) {
	at := min(max(part, 0), 1) * float64(len(r)-1)
	i := min(int(at), len(r)-2)
	rest := at - float64(i)
	for k := range c {
		c[k] = int(float64(r[i][k])*(1-rest) + float64(r[i+1][k])*rest)
	}
	return c
}

func hex(c [3]int) string { return fmt.Sprintf("#%02x%02x%02x", c[0], c[1], c[2]) }

// HeatColour returns the colour, on a white ground, of what is this part as hot as the hottest.
func HeatColour(part float64) string { return hex(heatLight.at(part)) }

// SizeColour returns the colour of what has this part of the greatest size, and that of text
// on it.
func SizeColour(part float64) (fill, text string) {
	c := sizes.at(part)
	text = light[Ink]
	if c[0]+c[1]+c[2] < 480 {
		text = "#ffffff"
	}
	return hex(c), text
}

// Style returns the style sheet of pictures. Rules begin with scope, which may be empty: a
// page with more than pictures names the class of their element there.
func Style(scope string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%[1]s.line{fill:none;vector-effect:non-scaling-stroke;stroke-linejoin:round}\n", scope)
	theme := func(ground, ink, soft, grid, axis string, palette *[colours]string, heat ramp) {
		rule := func(class, properties string) { fmt.Fprintf(&b, "%s.%s{%s}", scope, class, properties) }
		rule("g-ground", "fill:"+ground)
		rule("g-halo", "stroke:"+ground)
		rule("t-ink", "fill:"+ink)
		rule("t-soft", "fill:"+soft)
		rule("g-grid", "stroke:"+grid)
		rule("g-axis", "stroke:"+axis)
		for i, colour := range palette {
			rule(fmt.Sprintf("s%d", i), "stroke:"+colour)
			rule(fmt.Sprintf("f%d", i), "fill:"+colour)
		}
		rule("h0", "fill:"+grid)
		for i := range Levels {
			rule(fmt.Sprintf("h%d", i+1), "fill:"+hex(heat.at(float64(i)/(Levels-1))))
		}
		b.WriteByte('\n')
	}
	theme("#ffffff", light[Ink], "#59636e", "#e4e8ec", "#8c959f", &light, heatLight)
	b.WriteString("@media(prefers-color-scheme:dark){")
	theme("#0d1117", dark[Ink], "#9198a1", "#2a313c", "#656c76", &dark, heatDark)
	b.WriteString("}\n")
	return b.String()
}
