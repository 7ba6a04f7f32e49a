// Package provision has the throughput that clients provision for a database or a
// container: how requests ask for it, which amounts are possible, and how many physical
// partitions it makes.
package provision

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"

	"github.com/cleavestore/cleave/gateway/internal/resourceid"
)

// Offer is the throughput of a database or container, as the catalogue keeps it.
type Offer struct {
	Throughput int             `json:"throughput"`          // RU/s; with Autoscale the maximum
	Autoscale  bool            `json:"autoscale,omitempty"` // between a tenth of Throughput and all of it
	Upgrade    json.RawMessage `json:"upgrade,omitempty"`   // autoUpgradePolicy
	Highest    int             `json:"highest,omitempty"`   // Throughput of the largest offer before; 0: there was none
}

// Bounds of the throughput, in RU/s.
const (
	Least          = 400
	leastAutoscale = 1000
	most           = 1_000_000
	// OfPartition is how much of the throughput one physical partition has at most.
	OfPartition = 10_000
	// atStart is how much of it one has in a new container whose manual throughput is more
	// than one partition can have.
	atStart = 6_000
)

// Autopilot is how clients and answers write an Offer with Autoscale.
type Autopilot struct {
	MaxThroughput int             `json:"maxThroughput"`
	Upgrade       json.RawMessage `json:"autoUpgradePolicy,omitempty"`
}

// Of reads the throughput that a request asks for; nil: none. The error is for the client.
func Of(h http.Header) (*Offer, error) {
	manual, auto := h.Get("X-Ms-Offer-Throughput"), h.Get("X-Ms-Cosmos-Offer-Autopilot-Settings")
	switch {
	case manual != "" && auto != "":
		return nil, fmt.Errorf("x-ms-offer-throughput and x-ms-cosmos-offer-autopilot-settings exclude each other")
	case manual != "":
		n, err := strconv.Atoi(manual)
		if err != nil {
			return nil, fmt.Errorf("x-ms-offer-throughput %.100q is not a whole number", manual)
		}
		o := &Offer{Throughput: n}
		return o, o.Check()
	case auto != "":
		var a Autopilot
		if err := json.Unmarshal([]byte(auto), &a); err != nil {
			return nil, fmt.Errorf("x-ms-cosmos-offer-autopilot-settings: %w", err)
		}
		o := &Offer{Throughput: a.MaxThroughput, Autoscale: true, Upgrade: a.Upgrade}
		return o, o.Check()
	}
	return nil, nil
}

// Partitions returns how many physical partitions a new container has.
func (o *Offer) Partitions() int {
	each := OfPartition
	if !o.Autoscale && o.Throughput > each {
		each = atStart
	}
	return (o.Throughput + each - 1) / each
}

// bounds returns the least throughput of a first offer, what it is a multiple of, and the part of the highest one
// that is the least of later offers.
func (o *Offer) bounds() (first, step, part int) {
	if o.Autoscale {
		return leastAutoscale, 1000, 10
	}
	return Least, 100, 100
}

// Least returns the least throughput that can replace that of o.
func (o *Offer) Least() int {
	first, step, part := o.bounds()
	of := part * step
	return max(first, (max(o.Highest, o.Throughput)+of-1)/of*step)
}

// Check says what is wrong with the throughput. The error is for the client.
func (o *Offer) Check() error {
	if first, step, _ := o.bounds(); o.Throughput < first || o.Throughput > most || o.Throughput%step != 0 {
		return fmt.Errorf("the throughput is %d RU/s: multiples of %d from %d to %d are possible", o.Throughput, step, first, most)
	}
	return nil
}

// Replace checks o, which is to replace an offer; nil: there is none. The error is for the client.
func (o *Offer) Replace(before *Offer) error {
	if before != nil {
		o.Highest = max(before.Highest, before.Throughput)
	}
	if err := o.Check(); err != nil {
		return err
	}
	if least := o.Least(); o.Throughput < least {
		return fmt.Errorf("the throughput is %d RU/s: at least %d are possible, since it has been %d", o.Throughput, least, o.Highest)
	}
	return nil
}

// Shown returns the offer as clients see it: number, rid and self are those of its database or container.
func (o *Offer) Shown(number uint32, rid, self, etag string, made int64) map[string]any {
	content := map[string]any{"offerIsRUPerMinuteThroughputEnabled": false}
	if o.Autoscale {
		settings := map[string]any{"maxThroughput": o.Throughput, "tier": 0, "maximumTierThroughput": 0, "autoUpgrade": false}
		if o.Upgrade != nil {
			settings["autoUpgradePolicy"] = o.Upgrade
		}
		content["offerAutopilotSettings"] = settings
	} else {
		content["offerThroughput"] = o.Throughput
	}
	id := resourceid.Offer(number)
	return map[string]any{
		"id": id, "_rid": id, "_self": "offers/" + id + "/", "_etag": etag, "_ts": made,
		"resource": self, "offerResourceId": rid, "offerType": "Invalid", "offerVersion": "V2", "content": content,
	}
}
