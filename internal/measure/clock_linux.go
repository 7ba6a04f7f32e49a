package measure

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// timerFD is an alarm whose sleeper the Go scheduler treats like one that waits
// for the network: no processor is held meanwhile, and the kernel wakes it
// within some 20 µs. A nanosleep holds one, so that beside busy goroutines
// everything else waits for milliseconds; a timer of the runtime is late by half
// of one.
type timerFD struct {
	file *os.File
	fd   int
	buf  [8]byte
}

func newAlarm() alarm {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return newTimer()
	}
	return &timerFD{file: os.NewFile(uintptr(fd), "timer"), fd: fd}
}

// set sets a relative time: 0 would disarm it.
func (t *timerFD) set(d time.Duration) {
	at := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(max(d, 1)))}
	// It fails for times that are none, and descriptors that are none.
	_ = unix.TimerfdSettime(t.fd, 0, &at, nil)
}

func (t *timerFD) wait() { _, _ = t.file.Read(t.buf[:]) }

func (t *timerFD) close() error { return t.file.Close() }
