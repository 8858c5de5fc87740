package main

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"flyball.dev/internal/invariants"
)

// maxStartFaults bounds the page faults until the first write. A start has about 7,000 of them, most for the heap. A program that unmaps
// its own pages during the start has more than 15,000, and starts later.
const maxStartFaults = 12_000

// TestStartFaults counts the page faults of flyball up until its first write over HTTPS.
func TestStartFaults(t *testing.T) {
	if invariants.Enabled {
		t.Skip("the race detector and the checks of invariants use memory of their own")
	}
	var faults []int64
	for range 5 { // on a busy machine the controllers get further until the write, and the heap grows with them
		n := startFaults(t)
		if n <= maxStartFaults {
			t.Logf("%d page faults", n)
			return
		}
		faults = append(faults, n)
	}
	t.Errorf("the starts have had %d page faults, want one with at most %d", faults, maxStartFaults)
}

// startFaults returns the number of minor page faults of flyball up from its start to its first write.
func startFaults(t *testing.T) int64 {
	t.Helper()
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	cmd := exec.CommandContext(t.Context(), os.Args[0], "up", "--kubeconfig", kubeconfig)
	cmd.Env = append(os.Environ(), "FLYBALL_MAIN=1", "GOMAXPROCS=2", "GOGC=100") // each processor has a part of the heap
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatalf("%v: %s", err, line)
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "first"}}
	_, err = kubernetes.NewForConfigOrDie(config).CoreV1().ConfigMaps("default").Create(t.Context(), object, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	return cmd.ProcessState.SysUsage().(*syscall.Rusage).Minflt
}
