package gateway

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
)

// EmulatorKey is the master key that every emulator of the protocol has. It is public: a
// server that has it must be reached from its own host only.
const EmulatorKey = "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw=="

// maxClockSkew is how far the date of a signed request may lie from the clock.
const maxClockSkew = 15 * time.Minute

// maxAuthorization bounds the header that is parsed.
const maxAuthorization = 16 << 10

// authorizer checks that requests come from who has the master key.
type authorizer struct {
	text  string // the key in base64
	clock func() time.Time
	// signers has signers of the key.
	signers sync.Pool
}

func newAuthorizer(key string, clock func() time.Time) (*authorizer, error) {
	raw, err := base64.StdEncoding.DecodeString(key)
	if err != nil || len(raw) < 16 {
		return nil, fmt.Errorf("gateway: the master key must be at least 16 bytes in base64")
	}
	a := &authorizer{text: key, clock: clock}
	a.signers.New = func() any { return &signer{mac: hmac.New(sha256.New, raw)} }
	return a, nil
}

func unauthorized(format string, args ...any) *failure {
	return failf(http.StatusUnauthorized, format, args...)
}

// check verifies the signature or token of a request for a resource of a type, at one of
// links: spellings of the same path.
func (a *authorizer) check(r *http.Request, resourceType string, links ...string) *failure {
	kind, sig, bad := parseAuthorization(r.Header.Get("Authorization"))
	if bad != nil {
		return bad
	}
	switch kind {
	case "master":
		return a.checkMaster(r, sig, resourceType, links)
	case "aad":
		return a.checkToken(sig)
	}
	return unauthorized("the authorization header has the type %q: master, resource and aad are known", clip(kind))
}

// parseAuthorization reads "type=master&ver=1.0&sig=…", which clients may escape as a
// query of a URL.
func parseAuthorization(header string) (kind, sig string, bad *failure) {
	if header == "" {
		return "", "", unauthorized("the authorization header is missing")
	}
	if len(header) > maxAuthorization {
		return "", "", unauthorized("the authorization header has %d bytes, at most %d are read", len(header), maxAuthorization)
	}
	if strings.Contains(header, "%") {
		plain, err := url.QueryUnescape(header)
		if err != nil {
			return "", "", unauthorized("the authorization header is not escaped as a URL")
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
		return "", "", unauthorized("the authorization header has the version %q, 1.0 is known", clip(version))
	}
	if sig == "" {
		return "", "", unauthorized("the authorization header has no signature")
	}
	return kind, sig, nil
}

func (a *authorizer) checkMaster(r *http.Request, sig, resourceType string, links []string) *failure {
	given, err := base64.StdEncoding.DecodeString(sig)
	if err != nil || len(given) != sha256.Size {
		return unauthorized("the signature is not that of a SHA-256 in base64")
	}
	xdate, date := r.Header.Get("X-Ms-Date"), r.Header.Get("Date")
	at := xdate
	if at == "" {
		at = date
	}
	when, err := http.ParseTime(at)
	if err != nil {
		return unauthorized("x-ms-date %q is not an HTTP date", clip(at))
	}
	if xdate != "" {
		date = ""
	}
	right := 0
	for _, link := range links {
		right |= subtle.ConstantTimeCompare(given, a.sign(r.Method, resourceType, link, xdate, date))
	}
	if right == 0 {
		return unauthorized("the signature is not that of the master key for %s %s %q at %q",
			strings.ToLower(r.Method), resourceType, clip(links[0]), clip(at))
	}
	if d := a.clock().Sub(when); d > maxClockSkew || d < -maxClockSkew {
		return failf(http.StatusForbidden, "the request was signed for %s, which is more than %v from the time of the server", at, maxClockSkew)
	}
	return nil
}

// sign returns the signature of a request.
func (a *authorizer) sign(method, resourceType, link, xdate, date string) []byte {
	return a.signParts(strings.ToLower(method), strings.ToLower(resourceType), link, strings.ToLower(xdate), strings.ToLower(date))
}

// signParts returns the signature of some lines.
func (a *authorizer) signParts(lines ...string) []byte {
	s := a.signers.Get().(*signer)
	defer a.signers.Put(s)
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
func (a *authorizer) checkToken(token string) *failure {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return unauthorized("the token has %d parts, a JSON web token has 3", len(parts))
	}
	var raw [3][]byte
	for i, part := range parts {
		b, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(part, "="))
		if err != nil {
			return unauthorized("part %d of the token is not URL-safe base64", i+1)
		}
		raw[i] = b
	}
	if subtle.ConstantTimeCompare(raw[2], []byte(a.text)) != 1 {
		return unauthorized("the token is not one of an emulator: its signature is not the master key")
	}
	var header struct{ Alg string }
	var claims struct {
		Nbf, Exp *float64
	}
	if err := json.Unmarshal(raw[0], &header); err != nil || header.Alg == "" {
		return unauthorized("the header of the token is not that of a JSON web token")
	}
	if err := json.Unmarshal(raw[1], &claims); err != nil || claims.Exp == nil {
		return unauthorized("the token has no claims, or does not say when it expires")
	}
	now := float64(a.clock().Unix())
	if skew := maxClockSkew.Seconds(); *claims.Exp < now-skew || claims.Nbf != nil && *claims.Nbf > now+skew {
		return unauthorized("the token is not valid at this time")
	}
	return nil
}

// clip shortens text from outside for a message.
func clip(s string) string {
	const most = 200
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
