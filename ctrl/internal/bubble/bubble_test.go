package bubble

import (
	"strings"
	"testing"
	"testing/synctest"
)

func TestCheck(t *testing.T) {
	if err := Check("the server listens", "set Memory"); err != nil {
		t.Errorf("outside: %v", err)
	}
	synctest.Test(t, func(t *testing.T) {
		errs := make(chan error)
		go func() { errs <- Check("the server listens", "set Memory") }()
		if err := <-errs; err == nil || !strings.HasPrefix(err.Error(), "the server listens in a testing/synctest bubble") ||
			!strings.HasSuffix(err.Error(), ": set Memory") {
			t.Errorf("inside: %v", err)
		}
	})
}
