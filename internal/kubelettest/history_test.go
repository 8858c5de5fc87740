package kubelettest_test

import (
	"os"
	"slices"
	"testing"

	"flyball.dev/internal/kubelettest"
)

// TestRecording: each case is recorded, and the file has the text of its histories.
func TestRecording(t *testing.T) {
	cases, err := kubelettest.Cases()
	if err != nil {
		t.Fatal(err)
	}
	recorded, err := kubelettest.Recorded()
	if err != nil {
		t.Fatal(err)
	}
	if len(recorded) != len(cases) {
		t.Errorf("%d pods are recorded, of %d", len(recorded), len(cases))
	}
	for _, c := range cases {
		if recorded[c.Name] == nil {
			t.Errorf("%s is not recorded", c.Name)
		}
	}
	text, err := os.ReadFile("recorded.txt")
	if err != nil {
		t.Fatal(err)
	}
	if kubelettest.Format(recorded) != string(text) {
		t.Error("the file has another form")
	}
}

// TestCompare: statuses of a kubelet that is about to do something do not count, and everything else does.
func TestCompare(t *testing.T) {
	const kubelet = `=== p
1 phase = Pending
2 container a = waiting ContainerCreating, not started
3 container a = running, ready
3 phase = Running
4 container a = terminated 3 Error
5 container a = running, ready, restarts 1, last terminated 3 Error
6 container a = terminated 3 Error, restarts 1, last terminated 3 Error
event container a = Normal Started: started
event container a = Warning BackOff: wait
event container a = Warning BackOff: wait
`
	for _, tt := range []struct {
		name, ours string
		want       []string
	}{
		{"the same at other times", `=== p
1 phase = Pending
2 container a = running, ready
2 phase = Running
3 container a = running, ready, restarts 1, last terminated 3 Error
4 container a = terminated 3 Error, restarts 1, last terminated 3 Error
event container a = Normal Started: started
event container a = Warning BackOff: wait
`, nil},
		{"another last state, end and event", `=== p
1 phase = Pending
2 container a = running, ready
2 phase = Running
3 container a = running, ready, restarts 1
4 phase = Failed
event container a = Warning BackOff: wait
`, []string{
			"container a - running, ready, restarts 1, last terminated 3 Error",
			"container a - terminated 3 Error, restarts 1, last terminated 3 Error",
			"container a + running, ready, restarts 1",
			"event container a - Normal Started: started",
			"phase + Failed",
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			recorded, err := kubelettest.Parse(kubelet)
			if err != nil {
				t.Fatal(err)
			}
			got, err := kubelettest.Parse(tt.ours)
			if err != nil {
				t.Fatal(err)
			}
			if lines := kubelettest.Compare(recorded["p"], got["p"]); !slices.Equal(lines, tt.want) {
				t.Errorf("the differences are %q, want %q", lines, tt.want)
			}
		})
	}
}
