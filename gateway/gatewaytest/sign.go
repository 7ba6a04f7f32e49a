package gatewaytest

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Sign signs a request with a master key in base64, as clients do: it sets the headers x-ms-date
// and Authorization. The path is that of names.
func Sign(r *http.Request, key string) error {
	secret, err := base64.StdEncoding.DecodeString(key)
	if err != nil {
		return fmt.Errorf("the master key is not base64: %w", err)
	}
	kind, link := "", strings.Trim(r.URL.Path, "/")
	switch parts := strings.Split(link, "/"); {
	case link == "":
	case len(parts)%2 == 1: // a feed is signed by its owner
		kind, link = parts[len(parts)-1], strings.Join(parts[:len(parts)-1], "/")
	default:
		kind = parts[len(parts)-2]
	}
	date := time.Now().UTC().Format(http.TimeFormat)
	mac := hmac.New(sha256.New, secret)
	fmt.Fprintf(mac, "%s\n%s\n%s\n%s\n\n", strings.ToLower(r.Method), kind, link, strings.ToLower(date))
	r.Header.Set("X-Ms-Date", date)
	r.Header.Set("Authorization", url.QueryEscape("type=master&ver=1.0&sig="+base64.StdEncoding.EncodeToString(mac.Sum(nil))))
	return nil
}
