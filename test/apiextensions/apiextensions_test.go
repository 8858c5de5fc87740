package apiextensions

import (
	"flag"
	"strings"
	"testing"

	"flyball.dev/internal/gotest"
	_ "flyball.dev/internal/orphans"
)

var (
	update = flag.Bool("update", false, "rewrite failing.txt")
	kind   = flag.String("storage", "memory", "the storage of the servers: memory, datadir or the URL of an etcd")
	only   = flag.String("only", "", "run only the tests that match this regular expression")
)

const (
	list = "failing.txt"
	// notRun begins the reasons of tests that cannot apply.
	notRun = "not run"
)

func TestAPIExtensions(t *testing.T) {
	s, err := newScratch()
	if err != nil {
		t.Fatal(err)
	}
	known, err := gotest.ReadList(list)
	if err != nil {
		t.Fatal(err)
	}
	var without []string
	for test, reason := range known {
		if strings.HasPrefix(reason, notRun) {
			without = append(without, test)
		}
	}
	ran, err := s.run(*only, without, *kind)
	if err != nil {
		t.Fatal(err)
	}
	if *only == "" && len(ran) < 500 {
		t.Fatalf("only %d tests were found", len(ran))
	}
	t.Logf("%d tests, of which %d fail", len(ran), ran.Failed())
	current, differences := known.Compare(ran, func(_, reason string) bool { return *only != "" || strings.HasPrefix(reason, notRun) })
	if *update {
		if err := current.Write(list); err != nil {
			t.Fatal(err)
		}
		return
	}
	for _, difference := range differences {
		t.Error(difference)
	}
}
