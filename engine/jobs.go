package engine

// JobStats describes a job that waits or is under way: a ReshapeJob, IndexJob or CopyJob.
type JobStats struct {
	Kind      string `json:"kind"` // "split", "merge", "move", "install", "index" or "copy"
	Container string `json:"container"`
	// Phase, Parents, Children and At are those of a ReshapeProgress.
	Phase    string        `json:"phase,omitempty"`
	Parents  []PartitionID `json:"parents,omitempty"`
	Children []PartitionID `json:"children,omitempty"`
	At       string        `json:"at,omitempty"`
	// Done of Total are files of an index job, or items of the first pass of a copy. Total
	// is 0 if it is not known.
	Done  int64 `json:"done,omitzero"`
	Total int64 `json:"total,omitzero"`
	Pass  int   `json:"pass,omitzero"` // of a copy
}

// Jobs returns the jobs that wait or are under way, reshapes first and in the order in
// which they are carried out.
func (db *DB) Jobs() []JobStats {
	var jobs []JobStats
	reshapes := db.jobs.All()
	if j := db.reshaping.Load(); j != nil && !j.ended() {
		reshapes = append([]*ReshapeJob{j}, reshapes...)
	}
	for _, j := range reshapes {
		p := j.Progress()
		jobs = append(jobs, JobStats{
			Kind: p.Kind.String(), Container: p.Container, Phase: p.Phase.String(), Parents: p.Parents, Children: p.Children, At: p.At,
		})
	}
	for _, c := range db.containers.Load().All() {
		c.reindexing.Lock()
		indexing := c.reindexing.job
		c.reindexing.Unlock()
		if indexing != nil && !indexing.ended() {
			p := indexing.Progress()
			jobs = append(jobs, JobStats{Kind: "index", Container: c.name, Done: int64(p.Files - p.FilesLeft), Total: int64(p.Files)})
		}
		if copying := c.copier.Load(); copying != nil && !copying.ended() {
			p := copying.Progress()
			jobs = append(jobs, JobStats{Kind: "copy", Container: c.name, Done: p.Looked, Total: p.Items, Pass: p.Pass})
		}
	}
	return jobs
}
