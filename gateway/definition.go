package gateway

import (
	"encoding/json"
	"math"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/gateway/internal/computed"
	"github.com/cleavestore/cleave/gateway/internal/document"
	"github.com/cleavestore/cleave/gateway/internal/headertext"
	"github.com/cleavestore/cleave/gateway/internal/indexing"
	"github.com/cleavestore/cleave/gateway/internal/provision"
)

// containerProperties is the definition of a container as clients give it and get it back.
// What the gateway does not read it keeps as it is.
type containerProperties struct {
	ID                       string           `json:"id"`
	IndexingPolicy           json.RawMessage  `json:"indexingPolicy,omitempty"`
	PartitionKey             *keyDefinition   `json:"partitionKey,omitempty"`
	DefaultTTL               *int64           `json:"defaultTtl,omitempty"`
	UniqueKeyPolicy          *uniqueKeyPolicy `json:"uniqueKeyPolicy,omitempty"`
	ConflictResolutionPolicy json.RawMessage  `json:"conflictResolutionPolicy,omitempty"`
	GeospatialConfig         json.RawMessage  `json:"geospatialConfig,omitempty"`
	VectorEmbeddingPolicy    json.RawMessage  `json:"vectorEmbeddingPolicy,omitempty"`
	FullTextPolicy           json.RawMessage  `json:"fullTextPolicy,omitempty"`
	ComputedProperties       json.RawMessage  `json:"computedProperties,omitempty"`
	AnalyticalStorageTTL     json.RawMessage  `json:"analyticalStorageTtl,omitempty"`
	ClientEncryptionPolicy   json.RawMessage  `json:"clientEncryptionPolicy,omitempty"`
	ChangeFeedPolicy         *changeFeedRule  `json:"changeFeedPolicy,omitempty"`
}

type keyDefinition struct {
	Paths   []string `json:"paths"`
	Kind    string   `json:"kind"`
	Version int      `json:"version"`
}

type uniqueKeyPolicy struct {
	UniqueKeys []struct {
		Paths []string `json:"paths"`
	} `json:"uniqueKeys"`
}

type changeFeedRule struct {
	RetentionDuration int64 `json:"retentionDuration"` // minutes
}

type indexingPolicy struct {
	IndexingMode     string                     `json:"indexingMode"`
	Automatic        *bool                      `json:"automatic"`
	IncludedPaths    []indexPath                `json:"includedPaths"`
	ExcludedPaths    []indexPath                `json:"excludedPaths"`
	CompositeIndexes [][]indexing.CompositePath `json:"compositeIndexes"`
}

type indexPath struct {
	Path string `json:"path"`
}

const (
	defaultIndexing = `{"indexingMode":"consistent","automatic":true,"includedPaths":[{"path":"/*"}],"excludedPaths":[{"path":"/\"_etag\"/?"}]}`
	noIndexing      = `{"indexingMode":"none","automatic":false,"includedPaths":[],"excludedPaths":[]}`
	defaultConflict = `{"mode":"LastWriterWins","conflictResolutionPath":"/_ts","conflictResolutionProcedure":""}`
	defaultGeo      = `{"type":"Geography"}`

	kindHash      = "Hash"
	kindMultiHash = "MultiHash"
)

// keyPath is a path to the partition key.
var keyPath = regexp.MustCompile(`^(/([^/"'*?\s][^/"*?\s]*|"[^"\\]+"))+$`)

// complete checks the definition and fills in what the client has left out.
func (p *containerProperties) complete() *failure {
	k := p.PartitionKey
	if k == nil || len(k.Paths) == 0 {
		return badf("the container %q has no partition key: partitionKey.paths must have 1 to 3 paths", p.ID)
	}
	if len(k.Paths) > 3 {
		return badf("partitionKey.paths has %d paths, at most 3 are possible", len(k.Paths))
	}
	for _, path := range k.Paths {
		if !strings.HasPrefix(path, "/") {
			return badf("The partition key component definition path '%s' could not be accepted: it must begin with /", clip(path))
		}
		if !keyPath.MatchString(path) {
			return badf("Partition key paths must contain only valid characters and not contain a trailing slash or wildcard character: %q; names in double quotes may have any", clip(path))
		}
	}
	switch {
	case k.Kind == kindMultiHash, len(k.Paths) > 1:
		k.Kind = kindMultiHash
	case k.Kind == kindHash, k.Kind == "":
		k.Kind = kindHash
	default:
		return badf("partitionKey.kind is %q: Hash and MultiHash are possible", clip(k.Kind))
	}
	if k.Version < 0 || k.Version > 2 {
		return badf("partitionKey.version is %d, the newest is 2", k.Version)
	}
	switch {
	case k.Version == 0:
		k.Version = 2
	case k.Version == 1 && k.Kind == kindMultiHash:
		return badf("partitionKey.version is 1: that of the kind MultiHash is 2")
	}
	if bad := p.checkTTL(); bad != nil {
		return bad
	}
	if err := computed.Check(p.ComputedProperties, k.Paths, document.IsSystem); err != nil {
		return badf("computedProperties: %v", err)
	}
	if p.UniqueKeyPolicy != nil && len(p.UniqueKeyPolicy.UniqueKeys) == 0 {
		p.UniqueKeyPolicy = nil
	}
	if r := p.ChangeFeedPolicy; r != nil && (r.RetentionDuration < 0 || r.RetentionDuration > 30*24*60) {
		return badf("changeFeedPolicy.retentionDuration is %d minutes, between 0 and 43,200 are possible", r.RetentionDuration)
	}
	setDefault(&p.ConflictResolutionPolicy, defaultConflict)
	setDefault(&p.GeospatialConfig, defaultGeo)
	return p.completeIndexing()
}

func (p *containerProperties) checkTTL() *failure {
	if t := p.DefaultTTL; t != nil && (*t == 0 || *t < -1 || *t > math.MaxInt32) {
		return badf("defaultTtl is %d: -1 and 1 to %d are possible", *t, math.MaxInt32)
	}
	return nil
}

// storedTTL returns the default time to live as the container of the store has it.
func (p *containerProperties) storedTTL() time.Duration {
	switch t := p.DefaultTTL; {
	case t == nil:
		return 0
	case *t < 0:
		return engine.NoExpiry
	default:
		return time.Duration(*t) * time.Second
	}
}

// shownTTL returns the default time to live of a container of the store as clients see it, in whole seconds.
func shownTTL(stored time.Duration) *int64 {
	if stored == 0 {
		return nil
	}
	seconds := int64(-1)
	if stored != engine.NoExpiry {
		seconds = min(int64((stored-1)/time.Second)+1, math.MaxInt32)
	}
	return &seconds
}

func setDefault(at *json.RawMessage, value string) {
	if len(*at) == 0 || string(*at) == "null" {
		*at = json.RawMessage(value)
	}
}

func (p *containerProperties) completeIndexing() *failure {
	setDefault(&p.IndexingPolicy, defaultIndexing)
	var given map[string]json.RawMessage
	if err := json.Unmarshal(p.IndexingPolicy, &given); err != nil {
		return badf("indexingPolicy: %v", err)
	}
	if err := indexing.Complete(given); err != nil {
		return badf("indexingPolicy.%v", err)
	}
	p.IndexingPolicy, _ = json.Marshal(given)
	policy, bad := p.indexing()
	if bad != nil {
		return bad
	}
	defaults := defaultIndexing
	if policy.IndexingMode == "none" {
		defaults = noIndexing
	}
	var all map[string]json.RawMessage
	if err := json.Unmarshal([]byte(defaults), &all); err != nil {
		return failf(http.StatusInternalServerError, "default indexing policy: %v", err)
	}
	for name, value := range given {
		if string(value) != "null" {
			all[name] = value
		}
	}
	all["indexingMode"], _ = json.Marshal(policy.IndexingMode)
	if policy.IndexingMode != "none" && len(policy.IncludedPaths)+len(policy.ExcludedPaths) > 0 {
		root := func(paths []indexPath) bool {
			return slices.ContainsFunc(paths, func(at indexPath) bool { return at.Path == "/*" })
		}
		if given["includedPaths"] != nil && !root(policy.IncludedPaths) && !root(policy.ExcludedPaths) {
			return badf("indexingPolicy: the root path /* must be among includedPaths or excludedPaths")
		}
	}
	p.IndexingPolicy, _ = json.Marshal(all)
	_, bad = p.index(false)
	return bad
}

func (p *containerProperties) indexing() (*indexingPolicy, *failure) {
	policy := &indexingPolicy{}
	if err := json.Unmarshal(p.IndexingPolicy, policy); err != nil {
		return nil, badf("indexingPolicy: %v", err)
	}
	switch policy.IndexingMode = lower(policy.IndexingMode); policy.IndexingMode {
	case "":
		policy.IndexingMode = "consistent"
	case "consistent", "lazy", "none":
	default:
		return nil, badf("indexingPolicy.indexingMode is %q: consistent and none are possible", clip(policy.IndexingMode))
	}
	return policy, nil
}

// index returns the index policy of the store for the definition. Resource ids are indexed only if
// results come in the order of creation: clients do not look them up.
func (p *containerProperties) index(creationOrder bool) (engine.IndexPolicy, *failure) {
	var out, none engine.IndexPolicy
	if creationOrder {
		out.Include = []string{"/_rid/*"} // an order needs all values, of which there is one kind
		none.Include = out.Include
	} else {
		out.Exclude = []string{"/_rid/?"}
	}
	policy, bad := p.indexing()
	if bad != nil || policy.IndexingMode == "none" || policy.Automatic != nil && !*policy.Automatic {
		return none, bad
	}
	for _, at := range policy.IncludedPaths {
		if at.Path != "/_rid/?" && at.Path != "/_rid/*" {
			out.Include = append(out.Include, at.Path)
		}
	}
	for _, at := range policy.ExcludedPaths {
		if at.Path != "/_rid/?" && at.Path != "/_rid/*" {
			out.Exclude = append(out.Exclude, at.Path)
		}
	}
	var err error
	if out.Composite, err = indexing.Composite(policy.CompositeIndexes); err != nil {
		return out, badf("indexingPolicy.compositeIndexes: %v", err)
	}
	if len(out.Include)+len(out.Composite) == 0 {
		return none, nil
	}
	return out, nil
}

// engineDef returns the definition of the container of the store.
func (p *containerProperties) engineDef(creationOrder bool) (engine.ContainerDef, *failure) {
	index, bad := p.index(creationOrder)
	if bad != nil {
		return engine.ContainerDef{}, bad
	}
	def := engine.ContainerDef{
		PartitionKey: p.PartitionKey.Paths,
		HashVersion:  p.PartitionKey.Version,
		DefaultTTL:   p.storedTTL(),
		MutableTTL:   true,
		Index:        index,
		// A script may write more in its transaction than a batch has.
		Limits: engine.ContainerLimits{ItemBytes: document.MaxBytes + document.SystemBytes, BatchOperations: 10_000, BatchBytes: 4 << 20},
	}
	if u := p.UniqueKeyPolicy; u != nil {
		for _, set := range u.UniqueKeys {
			def.UniqueKeys = append(def.UniqueKeys, set.Paths)
		}
	}
	if r := p.ChangeFeedPolicy; r != nil {
		def.ChangeRetention = time.Duration(r.RetentionDuration) * time.Minute
	}
	return def, nil
}

// offer is the throughput of a database or container.
type offer = provision.Offer

var lower = headertext.Lower
