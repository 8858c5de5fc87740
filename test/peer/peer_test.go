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
	unstated = "to be replaced by the reason" // the reason of new failures
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

// prepare removes from the suites what does not compile, and writes their files.
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

// compare reports the differences between the results and failing.txt, or with -update writes it.
func compare(t *testing.T, suites []*suite, ran results) {
	t.Helper()
	c := comparison{known: readList(t), current: map[string]string{}}
	failed := c.addResults(ran)
	excluded := c.addExcluded(suites)
	c.addKnown(suites, ran)
	t.Logf("%d specs compile, of which %d fail; %d do not compile", len(ran), failed, excluded)
	if *update {
		writeList(t, c.current)
		return
	}
	slices.Sort(c.differences)
	for _, difference := range c.differences {
		t.Error(difference)
	}
}

// comparison compares failing.txt with the list that a run would write.
type comparison struct {
	known, current map[string]string // reasons by spec: of failing.txt, and of the run
	differences    []string
}

func (c *comparison) differ(format string, args ...any) {
	c.differences = append(c.differences, fmt.Sprintf(format, args...))
}

// addResults adds the specs that failed, and those that are listed as flaky. It returns the number of
// those that failed.
func (c *comparison) addResults(ran results) (failed int) {
	for spec, failure := range ran {
		reason, listed := c.known[spec]
		switch {
		case failure != "" && (!listed || strings.HasPrefix(reason, excludedReason)):
			c.differ("fails: %s\n%s", spec, failure)
			reason = unstated
		case failure == "" && listed && !strings.HasPrefix(reason, "flaky"):
			c.differ("no longer fails: %s", spec)
			continue
		case !listed:
			continue
		}
		if failure != "" {
			failed++
		}
		c.current[spec] = reason
	}
	return failed
}

// addExcluded adds the specs that do not compile, and returns their number.
func (c *comparison) addExcluded(suites []*suite) (excluded int) {
	for _, u := range suites {
		excluded += len(u.excluded)
		for spec, reason := range u.excluded {
			spec = oneLine(spec)
			c.current[spec] = excludedReason + reason
			if !strings.HasPrefix(c.known[spec], excludedReason) {
				c.differ("does not compile: %s: %s", spec, reason)
			}
		}
	}
	return excluded
}

// addKnown looks for the listed specs that neither ran nor were excluded: they do not exist, or with
// -only they are of another package and are kept.
func (c *comparison) addKnown(suites []*suite, ran results) {
	for spec, reason := range c.known {
		_, listed := c.current[spec]
		_, hasRun := ran[spec]
		switch {
		case listed, hasRun:
		case slices.ContainsFunc(suites, func(u *suite) bool { return u.contains(spec) }):
			c.differ("there is no such spec: %s", spec)
		case *only != "":
			c.current[spec] = reason
		default:
			c.differ("there is no such package: %s", spec)
		}
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
