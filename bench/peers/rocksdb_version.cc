//go:build rocksdb

// The version is in a header that only C++ can read.

#include <rocksdb/version.h>

extern "C" {
extern const int peers_rocksdb_version[3];
const int peers_rocksdb_version[3] = {ROCKSDB_MAJOR, ROCKSDB_MINOR, ROCKSDB_PATCH};
}
