package gateway

import (
	"encoding/base64"
	"net/http"
	"net/url"
	"time"
)

// Sign signs a request with a master key in base64, as clients do, for the time of the system's
// clock: it sets the headers x-ms-date and Authorization. Paths are those of names.
func Sign(r *http.Request, key string) error {
	a, err := newAuthorizer(key, time.Now)
	if err != nil {
		return err
	}
	c := &call{r: r}
	if bad := c.split(); bad != nil {
		return bad
	}
	res := c.resource()
	date := time.Now().UTC().Format(http.TimeFormat)
	r.Header.Set("X-Ms-Date", date)
	sig := base64.StdEncoding.EncodeToString(a.sign(r.Method, res.kind, res.link, date, ""))
	r.Header.Set("Authorization", url.QueryEscape("type=master&ver=1.0&sig="+sig))
	return nil
}
