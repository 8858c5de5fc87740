package testlevel_test

import (
	"fmt"
	"testing"

	"flyball.dev/internal/testlevel"
)

// skipped is a test that notes why it is skipped.
type skipped struct {
	testing.TB
	why string
}

func (s *skipped) Helper()          {}
func (s *skipped) Skip(args ...any) { s.why = fmt.Sprint(args...) }

func TestLevels(t *testing.T) {
	for _, tt := range []struct {
		level  string
		full   bool
		why    string
		rounds int
	}{
		{"", false, "full level: takes an hour", 2},
		{"quick", false, "full level: takes an hour", 2},
		{"full", true, "", 30},
	} {
		t.Setenv(testlevel.Variable, tt.level)
		if got := testlevel.Full(); got != tt.full {
			t.Errorf("level %q: full is %v, want %v", tt.level, got, tt.full)
		}
		test := &skipped{}
		if testlevel.NeedsFull(test, "takes an hour"); test.why != tt.why {
			t.Errorf("level %q: the test is skipped for %q, want %q", tt.level, test.why, tt.why)
		}
		if got := testlevel.Rounds(2, 30); got != tt.rounds {
			t.Errorf("level %q: %d rounds, want %d", tt.level, got, tt.rounds)
		}
	}
}

func TestUnknownLevel(t *testing.T) {
	t.Setenv(testlevel.Variable, "Full")
	defer func() {
		const want = `testlevel: FLYBALL_TEST_LEVEL is "Full", want "quick" or "full"`
		if got := recover(); got != want {
			t.Errorf("the panic is %v, want %v", got, want)
		}
	}()
	testlevel.Full()
}
