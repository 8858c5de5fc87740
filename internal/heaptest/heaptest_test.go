package heaptest_test

import (
	"runtime"
	"testing"

	"flyball.dev/internal/heaptest"
)

const size = 4096

// objects is memory that a test keeps.
type objects [][]byte

func (o *objects) add(n int) {
	for range n {
		*o = append(*o, make([]byte, size))
	}
}

// serve adds as many objects as it is asked for.
func serve(requests <-chan int, done chan<- *objects) {
	o := &objects{}
	for n := range requests {
		o.add(n)
		done <- o
	}
}

// TestMeter keeps and releases memory while another goroutine keeps some too.
func TestMeter(t *testing.T) {
	requests, done := make(chan int), make(chan *objects)
	go serve(requests, done)
	defer close(requests)
	want := func(m *heaptest.Meter, n int) {
		t.Helper()
		if held := m.Held(); held < int64(n)*size || held > int64(n+2)*size { // the slice of objects, and of errors
			t.Errorf("%d bytes are held, want %d of %d", held, n, size)
		}
	}
	own := objects{}
	m, both := heaptest.New(t), heaptest.New(t, "flyball.dev/internal/heaptest_test.serve")
	own.add(10)
	requests <- 50
	theirs := <-done
	want(m, 10)
	want(both, 60)
	t.Run("a test of the test", func(*testing.T) { own.add(20) })
	want(m, 30)
	want(both, 80)
	runtime.KeepAlive(own)
	own = nil
	want(m, 0)
	if allocated := m.Allocated(); allocated < 30*size || allocated > 60*size { // the other goroutine has allocated 50
		t.Errorf("%d bytes were allocated, want 30 of %d", allocated, size)
	}
	want(both, 50)
	runtime.KeepAlive(theirs)
}

// TestLive keeps memory.
func TestLive(t *testing.T) {
	o, before := objects{}, heaptest.Live()
	o.add(10_000)
	if more := heaptest.Live() - before; more < 5_000*size {
		t.Errorf("%d bytes are live", more)
	}
	runtime.KeepAlive(o)
}
