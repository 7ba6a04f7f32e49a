package pageapi

import (
	"errors"
	"net"
	"net/http"
	"slices"
	"strings"
)

// Secure sets the headers that every answer has.
func Secure(header http.Header) {
	header.Set("Content-Security-Policy", "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; object-src 'none'; require-trusted-types-for 'script'")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("X-Frame-Options", "DENY")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Cross-Origin-Opener-Policy", "same-origin")
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	header.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=()")
	header.Set("Cache-Control", "no-store")
}

// LocalHosts returns the Host headers by which a listener at a local address is reached:
// for 127.0.0.1:8080 also localhost:8080 and [::1]:8080. For an address that is not local
// it returns that alone.
func LocalHosts(addr string) []string {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return []string{addr}
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return []string{addr}
	}
	hosts := []string{net.JoinHostPort("localhost", port), net.JoinHostPort("127.0.0.1", port), net.JoinHostPort("::1", port)}
	if port == "80" {
		hosts = append(hosts, "localhost", "127.0.0.1", "[::1]")
	}
	if !slices.Contains(hosts, addr) {
		hosts = append(hosts, addr)
	}
	return hosts
}

// HostAllowed says whether a Host header is among those that are served: all if hosts is nil.
func HostAllowed(hosts []string, host string) bool {
	return hosts == nil || slices.ContainsFunc(hosts, func(h string) bool { return strings.EqualFold(h, host) })
}

// MaxRequest bounds the body of a request, in bytes.
const MaxRequest = 1 << 20

var errForeign = Failure{Status: http.StatusForbidden, Kind: "cross_origin", Text: "requests from pages elsewhere are refused"}

// CheckRead refuses a request that only reads, if a page elsewhere makes it.
func CheckRead(r *http.Request) error {
	if site := r.Header.Get("Sec-Fetch-Site"); site == "cross-site" || site == "same-site" {
		return errForeign
	}
	return nil
}

var sameOrigin = http.NewCrossOriginProtection()

// CheckChange refuses a request that may change something, if a page elsewhere makes it or
// its body is not JSON, and bounds the body.
func CheckChange(w http.ResponseWriter, r *http.Request) error {
	if err := errors.Join(CheckRead(r), sameOrigin.Check(r)); err != nil {
		return errForeign
	}
	if kind, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";"); kind != "application/json" {
		return Failure{Status: http.StatusUnsupportedMediaType, Kind: "invalid", Text: "the body must be application/json"}
	}
	r.Body = http.MaxBytesReader(w, r.Body, MaxRequest)
	return nil
}
