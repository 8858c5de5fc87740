package peer

import (
	"flag"
	"fmt"
	"hash/fnv"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var (
	update = flag.Bool("update", false, "rewrite failing.txt")
	only   = flag.String("only", "", "run only these packages, separated by commas")
)

const (
	list     = "failing.txt"
	unstated = "to be replaced by the reason"
)

func TestPeer(t *testing.T) {
	s, err := newScratch(scratchDir(t))
	if err != nil {
		t.Fatal(err)
	}
	suites, err := s.suites()
	if err != nil {
		t.Fatal(err)
	}
	if *only != "" {
		suites = slices.DeleteFunc(suites, func(u *suite) bool { return !slices.Contains(strings.Split(*only, ","), u.path) })
	} else if len(suites) < 40 {
		t.Fatalf("only %d packages with tests were found", len(suites))
	}
	if err := prepare(s, suites); err != nil {
		t.Fatal(err)
	}
	ran, err := s.run(suites)
	if err != nil {
		t.Fatal(err)
	}
	compare(t, suites, ran)
}

// scratchDir is the same in each run, so that the build cache knows its packages.
func scratchDir(t *testing.T) string {
	t.Helper()
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	hash := fnv.New32()
	_, _ = hash.Write([]byte(here))
	return filepath.Join(os.TempDir(), fmt.Sprintf("flyball-peer-%08x", hash.Sum32()))
}

func prepare(s *scratch, suites []*suite) error {
	for _, u := range suites {
		if !u.exists {
			if err := u.excludeAll("no exported package"); err != nil {
				return err
			}
		}
	}
	importer, err := s.newImporter(suites)
	if err != nil {
		return err
	}
	for _, u := range suites {
		if u.exists {
			if err := u.compile(importer); err != nil {
				return err
			}
		}
	}
	return nil
}

func compare(t *testing.T, suites []*suite, ran results) {
	known := readList(t)
	current := map[string]string{} // reasons by spec
	failed := 0
	for spec, failure := range ran {
		switch reason, listed := known[spec]; {
		case failure != "" && listed:
			current[spec] = reason
			failed++
		case failure != "":
			current[spec] = unstated
			failed++
			t.Errorf("fails: %s\n%s", spec, failure)
		case listed && strings.HasPrefix(reason, "flaky"):
			current[spec] = reason
		case listed:
			t.Errorf("no longer fails, take it from %s: %s", list, spec)
		}
	}
	excluded := 0
	for _, u := range suites {
		excluded += len(u.excluded)
		for spec, reason := range u.excluded {
			spec = oneLine(spec)
			current[spec] = "does not compile: " + reason
			if old, listed := known[spec]; !listed {
				t.Errorf("does not compile: %s: %s", spec, reason)
			} else if !strings.HasPrefix(old, "does not compile") {
				current[spec] = old
			}
		}
	}
	for spec := range known {
		if _, found := current[spec]; !found && ran[spec] == "" && *only == "" {
			if _, found := ran[spec]; !found {
				t.Errorf("there is no such spec, take it from %s: %s", list, spec)
			}
		}
	}
	t.Logf("%d specs compile, of which %d fail; %d do not compile", len(ran), failed, excluded)
	for _, reason := range current {
		if reason == unstated {
			t.Errorf("%s has specs without a reason", list)
			break
		}
	}
	if *update {
		writeList(t, current)
	}
}

// readList returns the reason of each spec in failing.txt.
func readList(t *testing.T) map[string]string {
	t.Helper()
	content, err := os.ReadFile(list)
	if err != nil {
		t.Fatal(err)
	}
	known, reason := map[string]string{}, ""
	for line := range strings.Lines(string(content)) {
		line = strings.TrimSpace(line)
		if heading, ok := strings.CutPrefix(line, "# "); ok {
			reason = heading
		} else if line != "" {
			known[line] = reason
		}
	}
	return known
}

func writeList(t *testing.T, current map[string]string) {
	t.Helper()
	byReason := map[string][]string{}
	for spec, reason := range current {
		byReason[reason] = append(byReason[reason], spec)
	}
	var out strings.Builder
	for _, reason := range slices.Sorted(maps.Keys(byReason)) {
		slices.Sort(byReason[reason])
		fmt.Fprintf(&out, "# %s\n%s\n\n", reason, strings.Join(byReason[reason], "\n"))
	}
	if err := os.WriteFile(list, []byte(strings.TrimSpace(out.String())+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
}
