package gateway

import (
	"net/http"
	"strings"

	"github.com/cleavestore/cleave/gateway/internal/signature"
)

// EmulatorKey is the master key that every emulator of the protocol has. It is public: a
// server that has it must be reached from its own host only.
const EmulatorKey = "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw=="

func unauthorized(format string, args ...any) *failure {
	return failf(http.StatusUnauthorized, format, args...)
}

// refused returns the answer that stands for a refusal; nil for nil.
func refused(r *signature.Refusal) *failure {
	switch {
	case r == nil:
		return nil
	case r.Forbidden:
		return failf(http.StatusForbidden, "%s", r.Text)
	}
	return unauthorized("%s", r.Text)
}

// clip shortens text from outside for a message.
func clip(s string) string {
	const most = 200
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
