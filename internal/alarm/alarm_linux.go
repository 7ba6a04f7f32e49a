package alarm

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// New returns an alarm as exact as the system has it. Without file descriptors
// left it is that of NewTimer.
func New() Alarm {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return NewTimer()
	}
	return &timerFD{file: os.NewFile(uintptr(fd), "timer"), fd: fd}
}

type timerFD struct {
	file *os.File
	fd   int
	buf  [8]byte
}

// Set sets a relative time: 0 would disarm a timerfd.
func (t *timerFD) Set(d time.Duration) {
	d = max(d, 1)
	at := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(d))}
	// It fails for times that are none, and descriptors that are none.
	_ = unix.TimerfdSettime(t.fd, 0, &at, nil)
	_ = t.file.SetReadDeadline(time.Now().Add(d))
}

// Wait ends with a read of the timerfd, or at the deadline. A deadline that is
// over is taken away, as the next read would not wait; where a Set just now is
// robbed of its own by that, it still has the timerfd.
func (t *timerFD) Wait() {
	_, _ = t.file.Read(t.buf[:])
	_ = t.file.SetReadDeadline(time.Time{})
}

func (t *timerFD) Close() error { return t.file.Close() }
