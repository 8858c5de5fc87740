package lab

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestWorkers explores an operator that ends its process after an error, and creates a second Secret after a crash. The search goes on after
// each end, and a later one goes on after the last schedule.
func TestWorkers(t *testing.T) {
	const mode = "FLYBALL_LAB_WORKERS"
	if os.Getenv(mode) != "" {
		Explore(t, copier(func(err error) {
			reason := apierrors.ReasonForError(err)
			if reason == metav1.StatusReasonUnknown {
				return // the process is about to crash
			}
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				panic("the reason is " + string(reason))
			}()
			<-ended
		}), copied(ServerError, Refuse, CrashAfter))
		return
	}
	if !canHaveWorkers {
		t.Skip(runtime.GOOS)
	}
	t.Parallel()
	folder := t.TempDir()
	explore := func() string {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestWorkers$/^"+exploration+"$", "-test.v", "-flyball.explore=5m", "-flyball.html=pages")
		cmd.Dir, cmd.Env, cmd.WaitDelay = folder, append(os.Environ(), mode+"=1", "XDG_CACHE_HOME="+folder, "HOME="+folder), time.Second
		out, err := cmd.CombinedOutput()
		if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != 1 {
			t.Fatalf("%v:\n%s", err, out)
		}
		return string(out)
	}
	out := explore()
	for _, want := range []string{
		"panic in a goroutine of the operator, which ended the test process: the reason is InternalError",
		"panic in a goroutine of the operator, which ended the test process: the reason is Forbidden",
		"Secret default/web-*: 2 objects, want present", "see pages/TestWorkers/",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("the output lacks %q:\n%.5000s", want, out)
		}
	}
	if findings, err := filepath.Glob(filepath.Join(folder, "testdata", "lab", "TestWorkers", "*")); err != nil || len(findings) != 3 {
		t.Errorf("the findings are %q, %v", findings, err)
	}
	if again := explore(); !regexp.MustCompile(`the same program has tried \d+ schedules before`).MatchString(again) {
		t.Errorf("the second exploration does not go on:\n%.5000s", again)
	}
}

// TestShards: the shards of a number of workers have every schedule once, from the first one on.
func TestShards(t *testing.T) {
	plans := slices.Values([]Schedule{{{Do: Fail}}, {{Do: Miss}}, {{Do: Hold}}, {{Do: Slow}}, {{Do: Lost}}})
	var got []int
	for i := range 2 {
		s := shard{From: 1 + i, Of: 2}
		for n := range s.of(plans) {
			got = append(got, n)
		}
	}
	if want := []int{1, 3, 2, 4}; !slices.Equal(got, want) {
		t.Errorf("the schedules are %d, want %d", got, want)
	}
}
