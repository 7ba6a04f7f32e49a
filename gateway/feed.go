package gateway

import (
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/gateway/internal/feedtag"
	"github.com/cleavestore/cleave/gateway/internal/wirekey"
)

// feedItems answers GET …/docs: a change feed, or all items in pages.
func (c *call) feedItems(k *container) error {
	if bad := c.checkSession(); bad != nil {
		return bad
	}
	p, err := c.place(k, false)
	if err != nil {
		return err
	}
	c.rangeHeaders(k, p.rangeID(c.o.Clock(), k))
	size, bad := c.pageSize()
	if bad != nil {
		return bad
	}
	switch mode := lower(c.r.Header.Get("A-Im")); mode {
	case "":
		p.all = false // a feed of everything needs no leave to cross partitions
		out, err := c.evaluate(k, &p, "SELECT * FROM c", nil, size)
		if err != nil {
			return err
		}
		return c.answerPage(k, out)
	case "incremental feed":
		return c.changes(k, &p, size, false)
	case "full-fidelity feed":
		return c.changes(k, &p, size, true)
	default:
		return badf("A-IM %q is not known: Incremental Feed and Full-Fidelity Feed are", clip(mode))
	}
}

// begin returns where a change feed begins. none says that the client's position is of a
// part of the key space that has nothing in common with the one it names.
func (c *call) begin(p *place, allVersions bool) (at string, none bool, bad *failure) {
	h := c.r.Header
	switch after, since := h.Get("If-None-Match"), h.Get("If-Modified-Since"); {
	case after == "*":
		return engine.FromNow().String(), false, nil
	case after != "":
		tag, err := feedtag.Parse(after)
		if err != nil {
			return at, false, badf("If-None-Match %q is not what a change feed gave: %v", clip(after), err)
		}
		p.within = p.within.Common(tag.Within)
		common := p.within
		if p.key.Valid() {
			keys, err := p.key.Range()
			if err != nil {
				return at, false, badf("the partition key %s: %v", p.key, err)
			}
			common = common.Common(keys)
		}
		return tag.At, common.Empty(), nil
	case since != "":
		// Go's client writes the time zone as UTC, others as GMT.
		t, err := time.Parse(time.RFC1123, since)
		if err != nil {
			return at, false, badf("If-Modified-Since %q is not an HTTP date", clip(since))
		}
		return engine.FromTime(t).String(), false, nil
	case allVersions:
		return engine.FromNow().String(), false, nil
	}
	return engine.FromStart().String(), false, nil
}

func (c *call) changes(k *container, p *place, size int, allVersions bool) error {
	if allVersions && k.record.Definition.ChangeFeedPolicy == nil {
		return badf("the container %q has no changeFeedPolicy with a retentionDuration, which a feed of all versions needs", k.record.Name)
	}
	from, none, bad := c.begin(p, allVersions)
	if bad != nil {
		return bad
	}
	h := c.w.Header()
	if none {
		h.Set("etag", c.r.Header.Get("If-None-Match"))
		c.answer(http.StatusNotModified, nil)
		return nil
	}
	p.all = false
	scope, err := p.scope()
	if err != nil {
		return err
	}
	feed := &Feed{Place: Place{scope, p.key, p.within}, From: from, AllVersions: allVersions, Page: size, Charge: &c.charge}
	body := append(append([]byte(`{"_rid":"`), k.rid...), `","Documents":[`...)
	count := 0
	at, err := k.items.Changes(c.ctx, feed, func(ch *engine.Change) {
		if count++; count > 1 {
			body = append(body, ',')
		}
		if allVersions {
			body = k.appendChange(body, ch)
		} else {
			body = k.appendItem(body, ch.Body, ch.ETag, ch.Seq)
		}
	})
	if err != nil {
		return k.outcome(err)
	}
	h.Set("etag", feedtag.Tag{Within: p.within, At: at}.String())
	h.Set("x-ms-item-count", strconv.Itoa(count))
	if count == 0 {
		c.charge = max(c.charge, 1)
		c.answer(http.StatusNotModified, nil)
		return nil
	}
	body = append(strconv.AppendInt(append(body, `],"_count":`...), int64(count), 10), '}')
	c.answer(http.StatusOK, body)
	return nil
}

// appendChange appends a change of a feed of all versions.
func (k *container) appendChange(dst []byte, ch *engine.Change) []byte {
	type metadata struct {
		LSN       uint64 `json:"lsn"`
		CRTS      int64  `json:"crts"` // seconds
		Operation string `json:"operationType"`
		Previous  uint64 `json:"previousImageLSN"`
		Expired   bool   `json:"timeToLiveExpired,omitempty"`
		ID        string `json:"id,omitempty"`
		Key       any    `json:"partitionKey,omitempty"`
	}
	m := metadata{LSN: ch.Seq, CRTS: ch.Modified.Unix(), Previous: ch.Previous, Operation: "replace"}
	dst = append(dst, `{"current":`...)
	switch ch.Kind {
	case engine.ChangeCreated:
		m.Operation = "create"
		fallthrough
	case engine.ChangeReplaced, engine.ChangeWritten:
		dst = k.appendItem(dst, ch.Body, ch.ETag, 0)
	default:
		dst = append(dst, "{}"...)
		m.Operation, m.Expired, m.ID = "delete", ch.Kind == engine.ChangeExpired, ch.ID
		m.Key = wirekey.Members(ch.Key, k.record.Definition.PartitionKey.Paths)
	}
	text, _ := json.Marshal(&m) // numbers, text and what wirekey made
	return append(append(append(dst, `,"metadata":`...), text...), '}')
}
