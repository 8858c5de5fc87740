//go:build unix

package zoo

import (
	"syscall"
	"testing"
	"time"
)

// used returns the time of a core that this process has used.
func used(t testing.TB) time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		t.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
