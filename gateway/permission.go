package gateway

import (
	"crypto/subtle"
	"encoding/hex"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cleavestore/cleave/gateway/internal/document"
	"github.com/cleavestore/cleave/gateway/internal/signature"
)

// A permission has a token, with which its user can do what the permission says and nothing
// else. The token is
//
//	type=resource&ver=1.0&sig=HMAC;RID;EXPIRES
//
// with the HMAC, by the master key, of the resource id and etag of the permission and of the
// second in which the token expires. A permission that was changed or deleted makes its
// tokens void. Each time that a permission is shown it has a new token.

// defaultTokenAge is how long a token is valid, if the request does not say it in
// x-ms-documentdb-expiry-seconds.
const (
	defaultTokenAge = time.Hour
	maxTokenAge     = 24 * time.Hour
)

// resourceToken returns the token of a permission.
func resourceToken(k *signature.Key, r *child, expires int64) string {
	sum := k.Lines("permission", r.record.RID, r.etag.String(), strconv.FormatInt(expires, 10))
	return fmt.Sprintf("type=resource&ver=1.0&sig=%x;%s;%d", sum, strings.ReplaceAll(r.record.RID, "+", "_"), expires)
}

// tokenOf returns a token of a permission that the request may ask for.
func (c *call) tokenOf(r *child) string {
	age := defaultTokenAge
	if n, _ := strconv.Atoi(c.r.Header.Get("X-Ms-Documentdb-Expiry-Seconds")); n > 0 { // the largest int for more
		age = time.Duration(min(n, int(maxTokenAge/time.Second))) * time.Second
	}
	return resourceToken(c.auth, r, c.o.Clock().Add(age).Unix())
}

// permissionOf returns the permission of a token.
func (c *call) permissionOf(sig string) (*child, *failure) {
	parts := strings.Split(strings.TrimRight(sig, ";"), ";")
	void := unauthorized("the token is not one of a permission as it is now")
	if len(parts) != 3 {
		return nil, void
	}
	expires, err := strconv.ParseInt(parts[2], 10, 64)
	if _, failed := hex.DecodeString(parts[0]); err != nil || failed != nil {
		return nil, void
	}
	r := c.catalog.ofRID(strings.ReplaceAll(parts[1], "_", "+"))
	if r == nil || r.record.Type != kindPermission {
		return nil, void
	}
	want := strings.TrimPrefix(resourceToken(c.auth, r, expires), "type=resource&ver=1.0&sig=")
	if subtle.ConstantTimeCompare([]byte(strings.Join(parts, ";")), []byte(want)) != 1 {
		return nil, void
	}
	if c.o.Clock().Unix() >= expires {
		return nil, unauthorized("the token of the permission has expired")
	}
	return r, nil
}

// permitted checks that the permission of a token is for the request.
func (c *call) permitted(sig string) *failure {
	r, bad := c.permissionOf(sig)
	if bad != nil {
		return bad
	}
	d := r.definition()
	posted := "" // to items
	if c.r.Method == http.MethodPost && len(c.path) == 5 && c.path[4] == typeItems {
		posted = c.posted()
	}
	reads := c.r.Method == http.MethodGet || c.r.Method == http.MethodHead || posted == kindPlan || posted == kindQuery
	if len(c.path) == 0 && reads {
		return nil // the account
	}
	no := failf(http.StatusForbidden, "the permission %q, %s of %q, is not for %s %q", r.record.Name, lower(d.PermissionMode),
		clip(d.Resource), c.r.Method, clip(c.r.URL.EscapedPath()))
	of, path := c.linked(&d), c.byNames(c.path)
	switch {
	case len(of) < 4 || of[2] != typeContainers || c.databaseOf(r) != of[1] || r.record.Container != "" && r.record.Container != c.containerOf(of):
		return no // of a container or what is in it, in the database of the user
	case len(of) > 4 && slices.Equal(path, of[:4]) && reads:
		return nil // clients of an item want to know the partition key of its container
	case lower(d.PermissionMode) != "all" && !reads:
		return no
	}
	if len(of) == 6 && of[4] == typeItems && len(path) == 6 && slices.Equal(path[:5], of[:5]) && path[5] != of[5] {
		// The permission may have the resource id of the item.
		if id, ok := c.itemNamed(path, of[5]); ok {
			of[5] = id
		}
	}
	if len(path) < len(of) || !slices.Equal(path[:len(of)], of) {
		return no
	}
	if len(d.PartitionKey) == 0 {
		return nil
	}
	// What is left is for one partition key: nothing that concerns the others.
	runs := len(path) == 6 && c.r.Method == http.MethodPost // a stored procedure
	switch {
	case reads && (len(path) < 5 || path[4] == typeRanges):
		return nil
	case len(path) < 5, posted == kindBulk, // whose operations have keys of their own
		path[4] != typeItems && path[4] != operations && !reads && !runs: // scripts are the container's
		return no
	}
	text := string(d.PartitionKey)
	if !strings.HasPrefix(text, "[") {
		text = "[" + text + "]"
	}
	want, given, err := parseKey(text)
	have, _, failed := parseKey(c.r.Header.Get("X-Ms-Documentdb-Partitionkey"))
	if err != nil || failed != nil || !given || have != want {
		return no
	}
	return nil
}

// linked returns the path of what a permission is for.
func (c *call) linked(d *resourceDefinition) []string {
	return c.byNames(strings.Split(strings.Trim(d.Resource, "/"), "/"))
}

// noContainer stands for the resource id of a container that there is not.
const noContainer = "none"

// containerOf returns the resource id of the container at a path or above it.
func (c *call) containerOf(path []string) string {
	if len(path) >= 4 {
		if k, bad := c.catalog.container(path[1], path[3]); bad == nil {
			return k.rid
		}
	}
	return noContainer
}

// databaseOf returns the name of the database to which a permission belongs.
func (c *call) databaseOf(r *child) string {
	for _, d := range c.catalog.databases() {
		if d.record.Number == r.record.Owner {
			return d.record.Name
		}
	}
	return ""
}

// byNames returns a path with names in the place of the resource ids of databases, containers and
// scripts.
func (c *call) byNames(path []string) []string {
	path = slices.Clone(path)
	if len(path) < 2 || path[0] != typeDatabases {
		return path
	}
	if d := c.catalog.database(path[1]); d != nil {
		path[1] = d.record.Name
	}
	if len(path) >= 4 && path[2] == typeContainers {
		if k, bad := c.catalog.container(path[1], path[3]); bad == nil {
			path[3] = k.record.Name
			if len(path) == 6 {
				if r := c.catalog.resource(resourceSet{owner: k.record.Number, kind: path[4]}, path[5]); r != nil {
					path[5] = r.record.Name
				}
			}
		}
	}
	return path
}

// itemNamed returns the id of the item at a path if rid is its resource id.
func (c *call) itemNamed(path []string, rid string) (string, bool) {
	k, bad := c.catalog.container(path[1], path[3])
	if bad != nil {
		return "", false
	}
	key, err := c.wholeKey(k)
	if err != nil {
		return "", false
	}
	it, err := k.items.Read(c.ctx, key, path[5])
	return path[5], err == nil && document.RIDOf(it.Body) == rid
}
