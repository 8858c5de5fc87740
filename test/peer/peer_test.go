package peer

import (
	"flag"
	"slices"
	"strings"
	"testing"

	"flyball.dev/internal/gotest"
	_ "flyball.dev/internal/orphans"
)

var (
	update = flag.Bool("update", false, "rewrite failing.txt")
	only   = flag.String("only", "", "run only these packages, separated by commas")
)

const (
	list = "failing.txt"
	// excludedReason begins the reasons of specs that do not compile, which are the compiler's.
	excludedReason = "does not compile: "
)

func TestPeer(t *testing.T) {
	s, err := newScratch()
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

// prepare removes the parts of the suites that do not compile, and writes the files.
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
func compare(t *testing.T, suites []*suite, ran gotest.Results) {
	t.Helper()
	known, err := gotest.ReadList(list)
	if err != nil {
		t.Fatal(err)
	}
	excluded := excludedSpecs(suites)
	t.Logf("%d specs compile, of which %d fail; %d do not compile", len(ran), ran.Failed(), len(excluded))
	notRun := func(spec, _ string) bool {
		return *only != "" && !slices.ContainsFunc(suites, func(u *suite) bool { return u.contains(spec) })
	}
	compiled, knownExcluded := split(known, excluded)
	current, differences := compiled.Compare(ran, notRun)
	for spec, reason := range excluded {
		current[spec] = reason
		if _, ok := knownExcluded[spec]; !ok {
			differences = append(differences, spec+": "+reason)
		}
	}
	for spec, reason := range knownExcluded {
		if _, ok := excluded[spec]; ok {
			continue
		}
		if notRun(spec, reason) {
			current[spec] = reason
		} else {
			differences = append(differences, "compiles, or does not exist: "+spec)
		}
	}
	if *update {
		if err := current.Write(list); err != nil {
			t.Fatal(err)
		}
		return
	}
	slices.Sort(differences)
	for _, difference := range differences {
		t.Error(difference)
	}
}

// excludedSpecs lists the specs that do not compile.
func excludedSpecs(suites []*suite) gotest.List {
	excluded := gotest.List{}
	for _, u := range suites {
		for spec, reason := range u.excluded {
			excluded[gotest.OneLine(spec)] = excludedReason + reason
		}
	}
	return excluded
}

// split returns the known specs that should run, and those that are known not to compile. One that
// should run but is excluded is in neither.
func split(known, excluded gotest.List) (compiled, notCompiled gotest.List) {
	compiled, notCompiled = gotest.List{}, gotest.List{}
	for spec, reason := range known {
		if strings.HasPrefix(reason, excludedReason) {
			notCompiled[spec] = reason
		} else if _, ok := excluded[spec]; !ok {
			compiled[spec] = reason
		}
	}
	return compiled, notCompiled
}
