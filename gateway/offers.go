package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/gateway/internal/condition"
	"github.com/cleavestore/cleave/gateway/internal/jsonfault"
	"github.com/cleavestore/cleave/gateway/internal/provision"
	"github.com/cleavestore/cleave/gateway/internal/resourceid"
)

func (d *database) offer() map[string]any {
	return d.record.Offer.Shown(d.record.Number, d.rid(), d.self(), d.etag.String(), d.record.Made)
}

func (k *container) offer() map[string]any {
	return k.record.Offer.Shown(k.record.Number, k.rid, k.self(), k.etag.String(), k.record.Made)
}

func (c *call) listOffers() error {
	if c.r.Method == http.MethodPost && !c.isQuery() {
		return badf("offers are made with their databases and containers: see x-ms-offer-throughput")
	}
	var all []map[string]any
	for _, d := range c.catalog.databases() {
		if d.record.Offer != nil {
			all = append(all, d.offer())
		}
		for _, k := range c.catalog.containersOf(d) {
			if k.record.Offer != nil {
				all = append(all, k.offer())
			}
		}
	}
	return c.list("", "Offers", all)
}

// namedOffer returns the database or container whose offer the path names.
func (c *call) namedOffer() (*database, *container, *failure) {
	for _, d := range c.catalog.databases() {
		if d.record.Offer != nil && resourceid.Offer(d.record.Number) == c.path[1] {
			return d, nil, nil
		}
		for _, k := range c.catalog.containersOf(d) {
			if k.record.Offer != nil && resourceid.Offer(k.record.Number) == c.path[1] {
				return d, k, nil
			}
		}
	}
	return nil, nil, failf(http.StatusNotFound, "there is no offer %q", clip(c.path[1]))
}

// offerHeaders says how little throughput is possible, and whether a change is under way.
func (c *call) offerHeaders(o *offer, k *container) {
	pending := false
	if k != nil {
		pending = k.growth.Pending() || c.db.Splitting(k.record.Store)
	}
	h := c.w.Header()
	h.Set("x-ms-cosmos-min-throughput", strconv.Itoa(o.Least()))
	h.Set("x-ms-offer-replace-pending", strconv.FormatBool(pending))
}

func (c *call) answerOffer(d *database, k *container) error {
	shown, o := map[string]any(nil), d.record.Offer
	if k != nil {
		shown, o = k.offer(), k.record.Offer
	} else {
		shown = d.offer()
	}
	c.offerHeaders(o, k)
	c.w.Header().Set("etag", shown["_etag"].(string))
	if c.r.Method == http.MethodGet && c.r.Header.Get("If-None-Match") == shown["_etag"] {
		c.answer(http.StatusNotModified, nil)
		return nil
	}
	return c.answerJSON(http.StatusOK, shown)
}

func (c *call) readOffer() error {
	c.charge = metaCharge
	d, k, bad := c.namedOffer()
	if bad != nil {
		return bad
	}
	return c.answerOffer(d, k)
}

func (c *call) replaceOffer() error {
	c.charge = metaCharge
	d, k, bad := c.namedOffer()
	if bad != nil {
		return bad
	}
	b, err := c.body(maxMetaBody)
	if err != nil {
		return err
	}
	var body struct {
		Content struct {
			Throughput *int                 `json:"offerThroughput"`
			Autopilot  *provision.Autopilot `json:"offerAutopilotSettings"`
		} `json:"content"`
	}
	if err = json.Unmarshal(b, &body); err != nil {
		return badf("the offer: %s", jsonfault.Text(err))
	}
	next := &offer{}
	switch a := body.Content.Autopilot; {
	case a != nil:
		*next = offer{Throughput: a.MaxThroughput, Autoscale: true, Upgrade: a.Upgrade}
	case body.Content.Throughput != nil:
		next.Throughput = *body.Content.Throughput
	default:
		return badf("the offer has neither content.offerThroughput nor content.offerAutopilotSettings")
	}
	if k == nil {
		changed, failed := c.catalog.changeDatabase(context.WithoutCancel(c.ctx), d, condition.Header(c.r.Header), func(r *databaseRecord) error {
			return replace(&r.Offer, next)
		})
		if failed != nil {
			return failed
		}
		return c.answerOffer(changed, nil)
	}
	replaced, err := c.setOffer(c.ctx, k, condition.Header(c.r.Header), next)
	if err != nil {
		return err
	}
	return c.answerOffer(d, replaced)
}

// provision gives a container the throughput of an offer; nil: none of its own.
func (h *Handler) provision(ctx context.Context, k *container, o *offer) error {
	if o == nil {
		o = &offer{}
	}
	if h.o.Throttle {
		return k.items.SetThroughput(ctx, float64(o.Throughput))
	}
	h.o.grow(k, o.Throughput)
	return nil
}

// grow splits physical partitions of a container if its throughput needs more of them. It does not wait for the splits.
func (o *Options) grow(k *container, throughput int) {
	k.growth.To(throughput, splitting{k}, func(err error) {
		if err != nil && !errors.Is(err, engine.ErrClosed) {
			o.Logger.Warn("too few partitions for the throughput", "container", k.record.Store, "throughput", throughput, "error", err)
		}
	})
}

// replace puts an offer in the place of another one.
func replace(before **offer, next *offer) error {
	if err := next.Replace(*before); err != nil {
		return badf("%v", err)
	}
	*before = next
	return nil
}

// splitting is a container as provision.Growth splits it.
type splitting struct{ k *container }

func (s splitting) Split(id string) error {
	return s.k.items.SplitRange(context.Background(), id)
}

func (s splitting) Parts() (all []provision.Part) {
	for _, p := range s.k.items.Ranges() {
		all = append(all, provision.Part{ID: p.ID, Bytes: p.RawBytes})
	}
	return all
}
