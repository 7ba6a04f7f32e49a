package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strconv"
	"time"

	"github.com/cleavestore/cleave/internal/cli"
	"github.com/cleavestore/cleave/internal/harness"
	"github.com/cleavestore/cleave/internal/humanize"
	"github.com/cleavestore/cleave/internal/measure"
)

// coldCommand measures point reads of a store that is larger than memory.
type coldCommand struct {
	DB        string        `name:"db" required:"" type:"directory" placeholder:"DIR" help:"Directory of a store that was loaded before."`
	Container string        `placeholder:"NAME" help:"Container to read; default the only one of the store."`
	Readers   int           `default:"64" placeholder:"N" help:"Goroutines that read at once; default ${default}."`
	Procs     []int         `placeholder:"N,..." help:"Values of GOMAXPROCS, one after the other; default what it is, and four times that."`
	Duration  time.Duration `default:"3s" placeholder:"TIME" help:"Time of each measurement; default ${default}."`
	Count     int           `default:"3" placeholder:"N" help:"Repeat so often; medians are printed; default ${default}."`
	Seed      uint64        `default:"1" placeholder:"N" help:"Seed of the places that are read; default ${default}."`
	harness.EngineFlags
	JSON harness.JSONOutput `name:"json" placeholder:"FILE" help:"Write the figures as JSON; - is standard output, in place of the table."`
}

// Help returns what follows the short help.
func (*coldCommand) Help() string {
	return `
Uniform point reads by many goroutines, beside a bare loop: as many goroutines that read 4 KiB at random places of the same files by pread, after the system was told so. For each measurement the store is opened anew, settled at first, and the system is asked to drop what it has of the files in memory; on Linux only. Meanwhile one goroutine sleeps for a millisecond at a time: how late it wakes tells what others in the process would wait for.

Give the store about four times the memory that there is, or limit that by a control group, so that the files cannot come to lie in memory meanwhile. The ratio is one of documents to pages: a document takes one or two, and pages of the tables that find it. Load the store without an index, of whose pages the bare loop would read too.

Examples:

    pbench load --db big --docs 5M --durability buffered
    systemd-run --scope --property MemoryMax=400M lab cold --db big
    lab cold --db big --procs 2,8,16 --duration 10s`
}

// coldReport is what lab cold found.
type coldReport struct {
	V         int             `json:"v"`
	Workload  string          `json:"workload"` // "cold-reads"
	Machine   measure.Machine `json:"machine"`
	Container string          `json:"container"`
	Readers   int             `json:"readers"`
	FileBytes int64           `json:"file_bytes"`             // of the partitions
	Memory    int64           `json:"memory_bytes,omitempty"` // that there is; 0: unknown
	Rows      []coldRow       `json:"rows"`
}

// coldRow holds medians with one value of GOMAXPROCS.
type coldRow struct {
	Procs    int       `json:"procs"`
	Bare     coldReads `json:"bare"`
	Store    coldReads `json:"store"`
	Ratio    float64   `json:"ratio"`
	IdleLate float64   `json:"idle_timer_late_p99_us"` // without reads
}

// coldReads is what readers did.
type coldReads struct {
	PerSecond float64 `json:"reads_per_s"`
	P50       float64 `json:"p50_us"`
	P99       float64 `json:"p99_us"`
	TimerLate float64 `json:"timer_late_p99_us"`
}

// Run measures.
func (c *coldCommand) Run(ctx context.Context, env *harness.Environment) error {
	if c.Readers < 1 || c.Count < 1 || c.Duration <= 0 || slices.ContainsFunc(c.Procs, func(n int) bool { return n < 1 }) {
		return harness.Usagef("--readers, --count, --duration and --procs are 1 or more")
	}
	if len(c.Procs) == 0 {
		n := runtime.GOMAXPROCS(0)
		c.Procs = []int{n, harness.ColdProcs * n}
	}
	if err := harness.CheckLoaded(c.DB); err != nil {
		return err
	}
	if err := c.JSON.Open(c.DB); err != nil {
		return err
	}
	defer c.JSON.Discard()
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	var docs harness.Documents
	f := harness.TargetFlags{DB: c.DB, Container: c.Container, EngineFlags: c.EngineFlags}
	err := f.WithLoaded(ctx, env, func(t *harness.Target) error {
		c.Container, docs = t.Name, t.Docs
		return t.Store.Settle(ctx)
	})
	var r *coldReport
	if err == nil {
		r, err = c.measure(ctx, env, docs)
	}
	if ctx.Err() != nil {
		return harness.ErrInterrupted
	}
	if err != nil {
		return err
	}
	if !c.JSON.ReplacesText() {
		env.PrintMachine(env.Stdout, r.Machine)
		r.print(env.Stdout)
	}
	return c.JSON.Write(env, r)
}

func (c *coldCommand) measure(ctx context.Context, env *harness.Environment, docs harness.Documents) (*coldReport, error) {
	r := &coldReport{
		V: 1, Workload: "cold-reads", Machine: measure.DescribeMachine(c.DB), Container: c.Container, Readers: c.Readers,
		Memory: measure.MemoryLimit(), Rows: make([]coldRow, len(c.Procs)),
	}
	r.Machine.Procs = 0 // the rows tell
	files, err := openBare(c.DB)
	if err != nil {
		return nil, err
	}
	defer files.close()
	if r.FileBytes, err = harness.PartitionBytes(c.DB); err != nil {
		return nil, err
	}
	begin := time.Now()
	line := harness.NewProgress(env, "cold reads", begin)
	defer line.End()
	rounds := make([][]coldRow, len(c.Procs))
	for round := range c.Count {
		for i, procs := range c.Procs {
			line.Show(time.Now(), float64(round*len(c.Procs)+i)/float64(c.Count*len(c.Procs)), func() string { return fmt.Sprintf("GOMAXPROCS %d", procs) })
			row, err := c.round(ctx, env, procs, docs, files, c.Seed+uint64(round))
			if err != nil {
				return nil, err
			}
			rounds[i] = append(rounds[i], row)
		}
	}
	for i := range r.Rows {
		r.Rows[i] = medianRow(rounds[i])
	}
	return r, nil
}

// round measures once with a value of GOMAXPROCS.
func (c *coldCommand) round(ctx context.Context, env *harness.Environment, procs int, docs harness.Documents, files *bareFiles, seed uint64) (row coldRow, err error) {
	runtime.GOMAXPROCS(procs)
	row.Procs = procs
	idle, err := readTogether(ctx, 0, c.Duration, seed, nil)
	if err != nil {
		return row, err
	}
	row.IdleLate = idle.TimerLate
	if err = c.drop(); err != nil {
		return row, err
	}
	if row.Bare, err = readTogether(ctx, c.Readers, c.Duration, seed, files.reader); err != nil {
		return row, err
	}
	if row.Store, err = c.readStore(ctx, env, docs, seed); err != nil {
		return row, err
	}
	row.Ratio = row.Store.PerSecond / row.Bare.PerSecond
	return row, nil
}

func (c *coldCommand) drop() error {
	if err := measure.DropCached(c.DB); err != nil {
		return fmt.Errorf("drop the files from memory: %w", err)
	}
	return nil
}

// readStore opens the store, reads and closes it. What an open store has mapped
// the system would not drop.
func (c *coldCommand) readStore(ctx context.Context, env *harness.Environment, docs harness.Documents, seed uint64) (r coldReads, err error) {
	if err = c.drop(); err != nil {
		return r, err
	}
	s, err := env.Open(ctx, c.DB, c.Options(env, nil))
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	from, err := s.Container(c.Container)
	if err != nil {
		return r, err
	}
	return readTogether(ctx, c.Readers, c.Duration, seed, func(int) func(uint64) error {
		var id, buf []byte
		n := uint64(docs.Count())
		return func(random uint64) error {
			i := int64(random % n)
			id = docs.AppendID(id[:0], i)
			doc, err := from.Read(ctx, docs.Key(i), string(id), buf[:0])
			if errors.Is(err, measure.ErrNotFound) {
				return fmt.Errorf("document %q is not there", id)
			}
			buf = doc
			return err
		}
	})
}

// medianRow returns the medians of several rounds.
func medianRow(rounds []coldRow) (m coldRow) {
	m.Procs = rounds[0].Procs
	set := func(to *float64, of func(*coldRow) float64) {
		values := make([]float64, len(rounds))
		for i := range rounds {
			values[i] = of(&rounds[i])
		}
		slices.Sort(values)
		n := len(values)
		*to = (values[(n-1)/2] + values[n/2]) / 2
	}
	set(&m.Ratio, func(r *coldRow) float64 { return r.Ratio })
	set(&m.IdleLate, func(r *coldRow) float64 { return r.IdleLate })
	for _, side := range []func(*coldRow) *coldReads{func(r *coldRow) *coldReads { return &r.Bare }, func(r *coldRow) *coldReads { return &r.Store }} {
		set(&side(&m).PerSecond, func(r *coldRow) float64 { return side(r).PerSecond })
		set(&side(&m).P50, func(r *coldRow) float64 { return side(r).P50 })
		set(&side(&m).P99, func(r *coldRow) float64 { return side(r).P99 })
		set(&side(&m).TimerLate, func(r *coldRow) float64 { return side(r).TimerLate })
	}
	return m
}

func (r *coldReport) print(w io.Writer) {
	memory := "memory unknown"
	if r.Memory > 0 {
		memory = fmt.Sprintf("%.1f times the memory of %s", float64(r.FileBytes)/float64(r.Memory), humanize.Bytes(r.Memory))
	}
	fmt.Fprintf(w, "%s of %s; files of %s, %s\n\n", harness.Plural(r.Readers, "reader"), r.Container, humanize.Bytes(r.FileBytes), memory)
	t := cli.NewTable("GOMAXPROCS", "bare reads/s", "p50 µs", "p99", "Cleave reads/s", "p50 µs", "p99", "ratio", "timer late p99 µs: idle", "bare", "Cleave")
	for i := range r.Rows {
		row := &r.Rows[i]
		t.Row(strconv.Itoa(row.Procs), humanize.Number(row.Bare.PerSecond), harness.FormatMicros(row.Bare.P50), harness.FormatMicros(row.Bare.P99),
			humanize.Number(row.Store.PerSecond), harness.FormatMicros(row.Store.P50), harness.FormatMicros(row.Store.P99), fmt.Sprintf("%.2f", row.Ratio),
			harness.FormatMicros(row.IdleLate), harness.FormatMicros(row.Bare.TimerLate), harness.FormatMicros(row.Store.TimerLate))
	}
	t.Print(w, "")
	if r.Memory > 0 && r.FileBytes < 2*r.Memory {
		fmt.Fprintln(w, "\nThe files take less than twice the memory: reads that come again may be answered from there.")
	}
}
