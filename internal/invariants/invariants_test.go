package invariants

import "testing"

func TestCheck(t *testing.T) {
	Check(true, "not reached")
	defer func() {
		if got := recover(); got != "invariant violated: 2 is not 1" {
			t.Errorf("got %v", got)
		}
	}()
	Check(false, "%d is not %d", 2, 1)
}
