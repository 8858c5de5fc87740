package conformance

import (
	"encoding/json"
	"flag"
	"os"
	"testing"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/ginkgo/v2/types"
	conformancetestdata "k8s.io/kubernetes/test/conformance/testdata"
	"k8s.io/kubernetes/test/e2e"
	"k8s.io/kubernetes/test/e2e/framework"
	"k8s.io/kubernetes/test/e2e/framework/config"
	"k8s.io/kubernetes/test/e2e/framework/testfiles"
	e2etestingmanifests "k8s.io/kubernetes/test/e2e/testing-manifests"
	testfixtures "k8s.io/kubernetes/test/fixtures"

	_ "k8s.io/kubernetes/test/e2e/feature" // the names of features

	// The packages with conformance tests.
	_ "k8s.io/kubernetes/test/e2e/apimachinery"
	_ "k8s.io/kubernetes/test/e2e/apps"
	_ "k8s.io/kubernetes/test/e2e/architecture"
	_ "k8s.io/kubernetes/test/e2e/auth"
	_ "k8s.io/kubernetes/test/e2e/common"
	_ "k8s.io/kubernetes/test/e2e/dra"
	_ "k8s.io/kubernetes/test/e2e/instrumentation"
	_ "k8s.io/kubernetes/test/e2e/kubectl"
	_ "k8s.io/kubernetes/test/e2e/network"
	_ "k8s.io/kubernetes/test/e2e/node"
	_ "k8s.io/kubernetes/test/e2e/scheduling"
	_ "k8s.io/kubernetes/test/e2e/storage"

	_ "k8s.io/kubernetes/test/e2e/framework/debug/init"
	_ "k8s.io/kubernetes/test/e2e/framework/node/init"
	_ "k8s.io/kubernetes/test/utils/ktesting/format"
)

// resultsVariable names the file of the results. A process with this variable runs specs.
const resultsVariable = "FLYBALL_CONFORMANCE_RESULTS"

// suiteName is the name of upstream's suite. Ginkgo's focus matches it together with the name of a spec.
const suiteName = "Kubernetes e2e suite"

// result is the result of a spec that has run.
type result struct {
	Name    string
	Passed  bool
	Skipped bool // by itself, since the cluster lacks something
	Seconds float64
	Message string // of a failure
}

// runSpecs runs the specs that the flags of upstream's test program select, and writes their results to a file.
func runSpecs(m *testing.M, file string) int {
	config.CopyFlags(config.Flags, flag.CommandLine)
	framework.RegisterCommonFlags(flag.CommandLine)
	framework.RegisterClusterFlags(flag.CommandLine)
	flag.Parse()
	if *limit > 0 {
		limitSpecs(*limit)
	}
	testfiles.AddFileSource(e2etestingmanifests.GetE2ETestingManifestsFS())
	testfiles.AddFileSource(testfixtures.GetTestFixturesFS())
	testfiles.AddFileSource(conformancetestdata.GetConformanceTestdataFS())
	framework.AfterReadingAllFlags(&framework.TestContext)
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o666)
	if err != nil {
		panic(err)
	}
	defer f.Close()
	encoder := json.NewEncoder(f)
	ginkgo.ReportAfterEach(func(r types.SpecReport) {
		if r.State.Is(types.SpecStateSkipped|types.SpecStatePending) && r.RunTime == 0 {
			return // it was not selected
		}
		out := result{Name: r.FullText(), Passed: r.State == types.SpecStatePassed, Skipped: r.State.Is(types.SpecStateSkipped),
			Seconds: r.RunTime.Seconds(), Message: r.FailureMessage()}
		if err := encoder.Encode(out); err != nil {
			panic(err)
		}
	})
	return m.Run()
}

// TestSpecs runs in a process with resultsVariable.
func TestSpecs(t *testing.T) {
	if os.Getenv(resultsVariable) == "" {
		t.Skip("TestConformance runs it in processes of its own")
	}
	e2e.RunE2ETests(t)
}
