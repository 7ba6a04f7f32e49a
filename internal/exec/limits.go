package exec

// Limits bound what a query holds in memory, and say from where on it takes another
// way. Only tests change them.
var Limits = struct {
	// KeyUnits is the number of keys up to which each key is a unit. With more keys, the
	// units are the whole physical partitions that hold them.
	KeyUnits int
	// FirstStep is the number of ordinals, a power of two, that are evaluated first.
	FirstStep uint32
	// Wide is the number of documents, as long as which evaluating a plan takes, from which
	// on the plan is wide; TermsPerDocument is how many terms are walked in the time in
	// which a document is tested. See wide.go.
	Wide, TermsPerDocument int64
	// Inside is the number of candidates with one value from which on they may be walked in
	// the order of the next path. See orderinside.go.
	Inside int
	// Together bounds the candidates of several units among which an order takes the first ones
	// at once. See spread.go.
	Together int64
	// KeptRows is the number of rows up to which a pass of an order holds their columns or documents.
	KeptRows int
	// OrderMemory bounds the rows of one pass on each goroutine, in bytes.
	OrderMemory int64
	// GroupMemory bounds the groups of a query, in bytes: those of each goroutine, and
	// those of all when they are merged.
	GroupMemory int64
}{KeyUnits: 100, FirstStep: 1 << 16, Wide: 64, TermsPerDocument: 20, Inside: 256, Together: 1 << 26, KeptRows: 1000, OrderMemory: 16 << 20, GroupMemory: 64 << 20}
