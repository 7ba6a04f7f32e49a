// Package signature verifies who sends a request: the signature of the master key, or a token as
// emulators take it.
//
// A client signs with HMAC of SHA-256 over five lines in lower case but for the link:
//
//	method \n type of the resource \n link \n x-ms-date \n date \n
//
// and sends type=master&ver=1.0&sig=BASE64 in the header Authorization, which may be escaped as a
// query of a URL. A token is a JSON web token whose third part is the master key, with type=aad.
//
// Invariants:
//
//  1. Nothing of the header is compared with the key but in constant time.
//  2. A header of more than MaxHeader bytes is refused before it is taken apart.
package signature

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"hash"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/cleavestore/cleave/internal/jsondoc"
)

// maxClockSkew is how far the date of a signed request may lie from the clock.
const maxClockSkew = 15 * time.Minute

// MaxHeader bounds the header that is read, in bytes.
const MaxHeader = 16 << 10

// Refusal says why a request is refused: its status is 401, or 403 with Forbidden.
type Refusal struct {
	Forbidden bool
	Text      string
}

// Error implements error.
func (r *Refusal) Error() string { return r.Text }

// Refuse returns a refusal that is not Forbidden.
func Refuse(format string, args ...any) *Refusal { return &Refusal{Text: fmt.Sprintf(format, args...)} }

// Key is a master key. Its methods may be called from many goroutines.
type Key struct {
	text  string // the key in base64
	clock func() time.Time
	// signers has signers of the key.
	signers sync.Pool
}

// New returns the key that a text has in base64. clock tells the time that signatures are judged by.
func New(key string, clock func() time.Time) (*Key, error) {
	raw, err := base64.StdEncoding.DecodeString(key)
	if err != nil || len(raw) < 16 {
		return nil, fmt.Errorf("gateway: the master key must be at least 16 bytes in base64")
	}
	k := &Key{text: key, clock: clock}
	k.signers.New = func() any { return &signer{mac: hmac.New(sha256.New, raw)} }
	return k, nil
}

// Check verifies the signature or token of a request for a resource of a type, at one of
// links: spellings of the same path.
func (k *Key) Check(r *http.Request, resourceType string, links ...string) *Refusal {
	kind, sig, bad := Parse(r.Header.Get("Authorization"))
	if bad != nil {
		return bad
	}
	switch kind {
	case "master":
		return k.checkMaster(r, sig, resourceType, links)
	case "aad":
		return k.checkToken(sig)
	}
	return Refuse("the authorization header has the type %q: master, resource and aad are known", jsondoc.Clip(kind))
}

// Parse reads "type=master&ver=1.0&sig=…", which clients may escape as a
// query of a URL.
func Parse(header string) (kind, sig string, bad *Refusal) {
	if header == "" {
		return "", "", Refuse("the authorization header is missing")
	}
	if len(header) > MaxHeader {
		return "", "", Refuse("the authorization header has %d bytes, at most %d are read", len(header), MaxHeader)
	}
	if strings.Contains(header, "%") {
		plain, err := url.QueryUnescape(header)
		if err != nil {
			return "", "", Refuse("the authorization header is not escaped as a URL")
		}
		header = plain
	}
	var version string
	for part := range strings.SplitSeq(header, "&") {
		name, value, _ := strings.Cut(part, "=")
		switch strings.ToLower(name) {
		case "type":
			kind = strings.ToLower(value)
		case "ver":
			version = value
		case "sig":
			sig = value
		}
	}
	if version != "1.0" {
		return "", "", Refuse("the authorization header has the version %q, 1.0 is known", jsondoc.Clip(version))
	}
	if sig == "" {
		return "", "", Refuse("the authorization header has no signature")
	}
	return kind, sig, nil
}

func (k *Key) checkMaster(r *http.Request, sig, resourceType string, links []string) *Refusal {
	given, err := base64.StdEncoding.DecodeString(sig)
	if err != nil || len(given) != sha256.Size {
		return Refuse("the signature is not that of a SHA-256 in base64")
	}
	xdate, date := r.Header.Get("X-Ms-Date"), r.Header.Get("Date")
	at := xdate
	if at == "" {
		at = date
	}
	when, err := http.ParseTime(at)
	if err != nil {
		return Refuse("x-ms-date %q is not an HTTP date", jsondoc.Clip(at))
	}
	if xdate != "" {
		date = ""
	}
	right := 0
	for _, link := range links {
		right |= subtle.ConstantTimeCompare(given, k.Sign(r.Method, resourceType, link, xdate, date))
	}
	if right == 0 {
		return Refuse("the signature is not that of the master key for %s %s %q at %q",
			strings.ToLower(r.Method), resourceType, jsondoc.Clip(links[0]), jsondoc.Clip(at))
	}
	if d := k.clock().Sub(when); d > maxClockSkew || d < -maxClockSkew {
		return &Refusal{Forbidden: true, Text: fmt.Sprintf("the request was signed for %s, which is more than %v from the time of the server", at, maxClockSkew)}
	}
	return nil
}

// Sign returns the signature of a request.
func (k *Key) Sign(method, resourceType, link, xdate, date string) []byte {
	return k.Lines(strings.ToLower(method), strings.ToLower(resourceType), link, strings.ToLower(xdate), strings.ToLower(date))
}

// Lines returns the signature of some lines.
func (k *Key) Lines(lines ...string) []byte {
	s := k.signers.Get().(*signer)
	defer k.signers.Put(s)
	s.text = s.text[:0]
	for _, line := range lines {
		s.text = append(append(s.text, line...), '\n')
	}
	s.mac.Reset()
	s.mac.Write(s.text)
	return s.mac.Sum(nil)
}

// signer is what makes signatures with the key, one at a time. Making one costs as much as two
// signatures, so they are kept.
type signer struct {
	mac  hash.Hash
	text []byte
}

// checkToken verifies a token as emulators take it: its third part is the master key. A
// token that an identity provider has signed cannot be verified here.
func (k *Key) checkToken(token string) *Refusal {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return Refuse("the token has %d parts, a JSON web token has 3", len(parts))
	}
	var raw [3][]byte
	for i, part := range parts {
		b, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(part, "="))
		if err != nil {
			return Refuse("part %d of the token is not URL-safe base64", i+1)
		}
		raw[i] = b
	}
	if subtle.ConstantTimeCompare(raw[2], []byte(k.text)) != 1 {
		return Refuse("the token is not one of an emulator: its signature is not the master key")
	}
	var header struct{ Alg string }
	var claims struct {
		Nbf, Exp *float64
	}
	if err := json.Unmarshal(raw[0], &header); err != nil || header.Alg == "" {
		return Refuse("the header of the token is not that of a JSON web token")
	}
	if err := json.Unmarshal(raw[1], &claims); err != nil || claims.Exp == nil {
		return Refuse("the token has no claims, or does not say when it expires")
	}
	now := float64(k.clock().Unix())
	if skew := maxClockSkew.Seconds(); *claims.Exp < now-skew || claims.Nbf != nil && *claims.Nbf > now+skew {
		return Refuse("the token is not valid at this time")
	}
	return nil
}
