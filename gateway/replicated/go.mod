module github.com/cleavestore/cleave/gateway/replicated

go 1.26.0

replace (
	github.com/cleavestore/cleave => ../../
	github.com/cleavestore/cleave/gateway => ../
	github.com/cleavestore/cleave/replica => ../../replica
)

require (
	github.com/cleavestore/cleave v0.0.0-00010101000000-000000000000
	github.com/cleavestore/cleave/gateway v0.0.0-00010101000000-000000000000
	github.com/cleavestore/cleave/replica v0.0.0-00010101000000-000000000000
)

require (
	github.com/RoaringBitmap/roaring/v2 v2.30.0 // indirect
	github.com/bits-and-blooms/bitset v1.24.4 // indirect
	github.com/dlclark/regexp2/v2 v2.5.2 // indirect
	github.com/dop251/goja v0.0.0-20260917113740-793a2a65c13b // indirect
	github.com/edsrzf/mmap-go v1.2.0 // indirect
	github.com/go-sourcemap/sourcemap v2.1.3+incompatible // indirect
	github.com/google/pprof v0.0.0-20260906184651-6331bc6350fe // indirect
	github.com/klauspost/compress v1.20.3 // indirect
	github.com/mschoch/smat v0.2.0 // indirect
	go.etcd.io/raft/v3 v3.7.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
	golang.org/x/text v0.43.0 // indirect
	google.golang.org/protobuf v1.36.11 // indirect
)
