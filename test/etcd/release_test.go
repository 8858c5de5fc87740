package etcd

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestOlderRelease runs what depends on the behaviour of etcd, on members of the release before: transactions, watches, leases,
// compaction, and control planes that share a cluster.
func TestOlderRelease(t *testing.T) {
	if *program != "" {
		t.Skip("the tests run a release already")
	}
	etcd := filepath.Join(t.TempDir(), "etcd")
	build := exec.Command("go", "build", "-C", "v36", "-o", etcd, "go.etcd.io/etcd/server/v3")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building etcd: %v\n%s", err, out)
	}
	version, err := exec.Command(etcd, "--version").Output()
	if err != nil || !strings.HasPrefix(string(version), "etcd Version: 3.6.") {
		t.Fatalf("the older release: %s, %v", version, err)
	}
	tests := exec.Command(os.Args[0], "-etcd", etcd, "-test.v", "-test.run",
		"^(TestStore|TestControlPlanes|TestTakeover|TestAllocations|TestMissedEvents|TestReadsOfOthersWrites|TestRevokedLease|TestCompactionsOfOthers)$")
	out, err := tests.CombinedOutput()
	if passed := strings.Count(string(out), "\n--- PASS: "); err != nil || passed != 8 {
		t.Errorf("%d tests passed, %v:\n%s", passed, err, out)
	}
}
