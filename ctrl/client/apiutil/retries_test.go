package apiutil

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/time/rate"
)

// TestRetriesAreForgotten asks for a thousand groups that do not exist: the mapper keeps only the limits that count.
func TestRetriesAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &mapper{retries: map[string]*rate.Limiter{}}
		for i := range 1000 {
			if !m.allowRetry(fmt.Sprint("group", i)) {
				t.Fatalf("the first retry of group %d is refused", i)
			}
			time.Sleep(100 * time.Millisecond) // virtual
		}
		if n := len(m.retries); n > 20 {
			t.Errorf("the mapper has the limits of %d groups", n)
		}
		for range 10 {
			m.allowRetry("busy")
		}
		m.allowRetry("another")
		if m.allowRetry("busy") {
			t.Error("a limit that is reached was forgotten")
		}
	})
}
