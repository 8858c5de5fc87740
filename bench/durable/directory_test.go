package durable

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"flyball.dev/storage"
	"flyball.dev/storage/datadir"
	"flyball.dev/storage/memory"
)

// BenchmarkBytes reports the bytes that the process writes for each byte of values, by system calls and to the disk: to the log
// alone, and with snapshots.
func BenchmarkBytes(b *testing.B) {
	for name, options := range map[string]datadir.Options{"log": {SnapshotAfter: 1 << 40}, "snapshots": {}} {
		b.Run(name, func(b *testing.B) {
			dir := b.TempDir()
			s, err := datadir.Open(dir, options)
			if err != nil {
				b.Fatal(err)
			}
			defer s.Close()
			v, put := value(), puts(s)
			var n atomic.Int64
			b.SetParallelism(writers / 2)
			written, disk := ownIO(b)
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if err := put(fmt.Sprintf("/registry/pods/default/web-%06d", n.Add(1)%keys), v); err != nil {
						b.Error(err)
						return
					}
				}
			})
			b.StopTimer()
			writtenAfter, diskAfter := ownIO(b)
			values := float64(n.Load() * valueSize)
			b.ReportMetric(float64(writtenAfter-written)/values, "written/byte")
			b.ReportMetric(float64(diskAfter-disk)/values, "disk/byte")
		})
	}
}

// ownIO returns the bytes that this process has written, by system calls and to the disk, as Linux reports them.
func ownIO(b *testing.B) (written, disk int64) {
	text, err := os.ReadFile("/proc/self/io")
	if err != nil {
		b.Skip(err)
	}
	for line := range strings.Lines(string(text)) {
		fmt.Sscanf(line, "wchar: %d", &written)
		fmt.Sscanf(line, "write_bytes: %d", &disk)
	}
	return written, disk
}

// ownCPU returns the CPU time that this process has taken.
func ownCPU(b *testing.B) time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// BenchmarkOpen opens a directory with 100,000 values, which are in the log or in a snapshot.
func BenchmarkOpen(b *testing.B) {
	const records = 100_000
	for name, options := range map[string]datadir.Options{"log": {SnapshotAfter: 1 << 40}, "snapshots": {}} {
		b.Run(name, func(b *testing.B) {
			dir := b.TempDir()
			s, err := datadir.Open(dir, options)
			if err != nil {
				b.Fatal(err)
			}
			v := value()
			for from := 0; from < records; from += 100 {
				var writes []storage.Write
				for i := range 100 {
					writes = append(writes, storage.Write{Key: fmt.Sprintf("/registry/pods/default/web-%06d", from+i), Value: v, If: storage.Absent})
				}
				if _, err := s.Commit(context.Background(), writes); err != nil {
					b.Fatal(err)
				}
			}
			if err := s.Close(); err != nil {
				b.Fatal(err)
			}
			options.Memory = memory.Options{CompressAfter: 10 * time.Second}
			var used time.Duration
			for b.Loop() {
				began := ownCPU(b)
				s, err := datadir.Open(dir, options)
				if err != nil {
					b.Fatal(err)
				}
				used += ownCPU(b) - began
				if err := s.Close(); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(used.Seconds()*1000/float64(b.N), "cpu-ms/op")
		})
	}
}

// BenchmarkFirstWrite opens an empty directory and writes a value.
func BenchmarkFirstWrite(b *testing.B) {
	dir, v := b.TempDir(), value()
	var used time.Duration
	for i := 0; b.Loop(); i++ {
		began := ownCPU(b)
		s, err := datadir.Open(fmt.Sprint(dir, "/", i), datadir.Options{})
		if err != nil {
			b.Fatal(err)
		}
		if err := puts(s)("/registry/pods/default/a", v); err != nil {
			b.Fatal(err)
		}
		used += ownCPU(b) - began
		b.StopTimer()
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
	b.ReportMetric(used.Seconds()*1000/float64(b.N), "cpu-ms/op")
}
