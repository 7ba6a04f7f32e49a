package manifest

import "testing"

// TestPlace: the manifest of another partition, or of another store, is not that of
// a partition.
func TestPlace(t *testing.T) {
	store := Store{Head: Head{StoreID: ID{1}, NextPartition: 3}}
	for _, tc := range []struct {
		files Files
		ok    bool
	}{
		{Files{StoreID: ID{1}, Partition: 1}, true},
		{Files{StoreID: ID{1}, Partition: 2}, false},
		{Files{StoreID: ID{2}, Partition: 1}, false},
		{Files{StoreID: ID{2}, Partition: 2}, false},
	} {
		if err := store.CheckFiles(1, &tc.files); (err == nil) != tc.ok {
			t.Errorf("manifest of partition %d of store %x: %v", tc.files.Partition, tc.files.StoreID, err)
		}
	}
}
