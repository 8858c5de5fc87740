package conformance

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/ginkgo/v2/types"
)

var (
	server = flag.String("server", os.Getenv("FLYBALL_TEST_KUBECONFIG"), "the kubeconfig of a server that runs, on which the specs run instead of control planes of flyball up")
	like   = flag.String("like", "", "a file of results of another server: runs its specs, which must have the same results on the server")
	limit  = flag.Duration("limit", 0, "the longest time that a spec may take on the server; 0 is none")
)

// serverFlags are flags of upstream's test program for a server that may have no nodes. Without them the suite waits for nodes,
// and fails before its first spec.
var serverFlags = []string{"-allowed-not-ready-nodes=-1", "-num-nodes=0", "-dump-logs-on-failure=false"}

// TestServer runs specs on a server that runs. A spec that fails is no error, because the server may have no nodes, unless the
// spec has passed on the server to compare with.
func TestServer(t *testing.T) {
	if *server == "" {
		t.Skip("-server is not set")
	}
	if *like == "" && *results == "" {
		t.Fatal("neither -results nor -like is set: the results would be lost")
	}
	specs := selectSpecs(t)
	var other []result
	if *like != "" {
		var err error
		if other, err = readResults(*like); err != nil {
			t.Fatal(err)
		}
		specs = slices.DeleteFunc(conformanceSpecs(t), func(name string) bool { return !slices.Contains(names(other), name) })
	}
	if len(specs) == 0 {
		t.Fatal("no spec is selected")
	}
	build(t, kubectl, "..", "./kubectl", "-ldflags=-X k8s.io/component-base/version.gitVersion="+kubectlVersion)
	all := runSpecsOn(t, t.TempDir(), *server, *workers, specs, append(serverFlags, "-limit="+limit.String())...)
	passed := 0
	for _, r := range all {
		if r.Passed {
			passed++
		} else if r.Message == notRun {
			t.Errorf("%s: %s", r.Name, r.Message)
		}
	}
	t.Logf("%d of %d specs pass", passed, len(all))
	if passed == 0 {
		t.Error("no spec passes")
	}
	if *like != "" {
		for _, d := range differences(other, all) {
			t.Error(d)
		}
	}
}

// differences describes the specs that pass on one of two servers only. Of several results of a spec on a server, the last counts.
func differences(there, here []result) (all []string) {
	last := func(results []result) map[string]result {
		byName := map[string]result{}
		for _, r := range results {
			byName[r.Name] = r
		}
		return byName
	}
	a, b := last(there), last(here)
	for name, r := range a {
		switch s, ok := b[name]; {
		case r.Passed && !ok:
			all = append(all, fmt.Sprintf("%s passes on the other server, and has no result on this one", name))
		case r.Passed && !s.Passed:
			all = append(all, fmt.Sprintf("%s passes on the other server, and fails on this one after %.0f s: %s", name, s.Seconds, s.Message))
		case !r.Passed && s.Passed:
			all = append(all, fmt.Sprintf("%s passes on this server, and fails on the other one after %.0f s: %s", name, r.Seconds, r.Message))
		}
	}
	slices.Sort(all)
	return all
}

func names(results []result) (all []string) {
	for _, r := range results {
		all = append(all, r.Name)
	}
	return all
}

// TestDifferences compares results.
func TestDifferences(t *testing.T) {
	there := []result{{Name: "a", Passed: true}, {Name: "b"}, {Name: "c", Passed: true}, {Name: "d", Message: "x"}, {Name: "e"}, {Name: "e", Passed: true}}
	for _, test := range []struct {
		here []result
		want int
	}{
		{there, 0},
		{slices.Concat(there[:2], there[3:]), 1}, // without c
		{slices.Concat(there, []result{{Name: "c", Message: "y"}}), 1},               // c fails when it runs again
		{slices.Concat(there, []result{{Name: "d", Passed: true}, {Name: "a"}}), 2},  // d passes here only, and a there only
		{slices.Concat(there, []result{{Name: "f"}, {Name: "b", Passed: false}}), 0}, // f has not run there
	} {
		if got := differences(there, test.here); len(got) != test.want {
			t.Errorf("%v differ from %v in %q, want %d differences", test.here, there, got, test.want)
		}
	}
}

// limitSpecs gives each spec that can be interrupted a limit of time. It must be called before the specs are made.
func limitSpecs(limit time.Duration) {
	ginkgo.AddTreeConstructionNodeArgsTransformer(func(node types.NodeType, _ ginkgo.Offset, text string, args []any) (string, []any, []error) {
		if node == types.NodeTypeIt && slices.ContainsFunc(args, takesContext) {
			args = append(slices.Clone(args), ginkgo.SpecTimeout(limit))
		}
		return text, args, nil
	})
}

// takesContext reports whether an argument of a spec is a function with a context, which Ginkgo can interrupt.
func takesContext(arg any) bool {
	switch arg.(type) {
	case func(context.Context), func(ginkgo.SpecContext):
		return true
	}
	return false
}
