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
	// excludedReason begins the reasons of specs that do not compile, which are the compiler's.
	excludedReason = "does not compile: "
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
		if u.absent != "" {
			if err := u.excludeAll(u.absent); err != nil {
				return err
			}
		}
	}
	importer, err := s.newImporter(suites)
	if err != nil {
		return err
	}
	for _, u := range suites {
		if u.absent == "" {
			if err := u.compile(importer); err != nil {
				return err
			}
		}
	}
	return nil
}

// compare reports the differences between what became of the specs and failing.txt, or with -update
// writes it.
func compare(t *testing.T, suites []*suite, ran results) {
	t.Helper()
	known := readList(t)
	current := map[string]string{} // reasons by spec
	var differences []string
	failed, excluded := 0, 0
	for spec, failure := range ran {
		reason, listed := known[spec]
		switch {
		case failure != "" && (!listed || strings.HasPrefix(reason, excludedReason)):
			differences = append(differences, "fails: "+spec+"\n"+failure)
			reason = unstated
		case failure == "" && listed && !strings.HasPrefix(reason, "flaky"):
			differences = append(differences, "no longer fails: "+spec)
			continue
		case !listed:
			continue
		}
		if failure != "" {
			failed++
		}
		current[spec] = reason
	}
	for _, u := range suites {
		excluded += len(u.excluded)
		for spec, reason := range u.excluded {
			spec = oneLine(spec)
			current[spec] = excludedReason + reason
			if old := known[spec]; !strings.HasPrefix(old, excludedReason) {
				differences = append(differences, "does not compile: "+spec+": "+reason)
			}
		}
	}
	for spec, reason := range known {
		_, listed := current[spec]
		_, hasRun := ran[spec]
		switch {
		case listed, hasRun:
		case slices.ContainsFunc(suites, func(u *suite) bool { return u.contains(spec) }):
			differences = append(differences, "there is no such spec: "+spec)
		case *only != "":
			current[spec] = reason
		default:
			differences = append(differences, "there is no such package: "+spec)
		}
	}
	t.Logf("%d specs compile, of which %d fail; %d do not compile", len(ran), failed, excluded)
	if *update {
		writeList(t, current)
		return
	}
	slices.Sort(differences)
	for _, difference := range differences {
		t.Error(difference)
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
			if reason = heading; reason == unstated && !*update {
				t.Errorf("%s has specs below the heading %q", list, unstated)
			}
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
