package conformance

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	_ "flyball.dev/internal/orphans"
)

var (
	all     = flag.Bool("all", false, "run all specs that pass, and not the quick ones alone")
	longest = flag.Duration("longest", 4*time.Second, "run the specs that take no longer")
	match   = flag.String("specs", "", "run the conformance tests with matching names, whether they are known to pass or not")
	servers = flag.Int("servers", 2, "the number of control planes, on each of which all specs run")
	workers = flag.Int("workers", 4, "the number of processes that run specs on a control plane at the same time")
	update  = flag.Bool("update", false, "write passing.txt anew: specs that pass on all control planes; excluded.txt loses them")
	results = flag.String("results", "", "a file to append the results to, in JSON")
	binary  = flag.String("flyball", "", "the program flyball; by default, it is built")
	kubectl = flag.String("kubectl", "", "the program kubectl; by default, it is built")
	agnhost = flag.String("agnhost", "", "the program agnhost of Kubernetes' tests; by default, it is built")
)

func TestMain(m *testing.M) {
	if file := os.Getenv(resultsVariable); file != "" {
		os.Exit(runSpecs(m, file))
	}
	flag.Parse()
	os.Exit(m.Run())
}

// TestConformance runs specs on fresh control planes.
func TestConformance(t *testing.T) {
	if *server != "" {
		t.Skip("-server is set")
	}
	specs := selectSpecs(t)
	if len(specs) == 0 {
		t.Fatal("no spec is selected")
	}
	build(t, binary, "../..", "./cmd/flyball")
	build(t, kubectl, "..", "./kubectl", "-ldflags=-X k8s.io/component-base/version.gitVersion="+kubectlVersion)
	if slices.ContainsFunc(specs, servesHTTPS) {
		build(t, agnhost, ".", "k8s.io/kubernetes/test/images/agnhost")
	}
	t.Logf("%d specs on %d control planes", len(specs), *servers)
	passed := map[string][]float64{}
	var mu sync.Mutex
	t.Run("servers", func(t *testing.T) {
		for i := range *servers {
			t.Run(fmt.Sprint(i+1), func(t *testing.T) {
				t.Parallel()
				for _, r := range slices.Concat(runOnServer(t, byScripts, specs), runOnServer(t, byProgram, specs)) {
					mu.Lock()
					switch {
					case r.Passed:
						passed[r.Name] = append(passed[r.Name], r.Seconds)
					case r.Skipped:
						t.Errorf("%s skips itself: %s", r.Name, r.Message)
					default:
						t.Errorf("%s fails after %.0f s: %s", r.Name, r.Seconds, r.Message)
					}
					mu.Unlock()
				}
			})
		}
	})
	if *update {
		updatePassing(t, specs, passed)
	}
}

// selectSpecs returns the specs that the flags select.
func selectSpecs(t *testing.T) (specs []string) {
	passing := readPassing(t)
	pattern, err := regexp.Compile(*match)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range conformanceSpecs(t) {
		seconds, passes := passing[name]
		if *match != "" && pattern.MatchString(name) || *match == "" && passes && (*all || seconds <= longest.Seconds()) {
			specs = append(specs, name)
		}
	}
	return specs
}

// updatePassing adds the specs that have passed on all control planes to the list, and removes the others that have run.
func updatePassing(t *testing.T, specs []string, passed map[string][]float64) {
	passing := readPassing(t)
	for _, name := range specs {
		delete(passing, name)
		if seconds := passed[name]; len(seconds) == *servers {
			passing[name] = slices.Max(seconds)
		}
	}
	writePassing(t, passing)
	removeExcluded(t, passing)
}

// kubectlVersion is the version that the release build of kubectl sets. Without it, kubectl version fails.
const kubectlVersion = "v1.37.2"

// build builds a program with flags of go build, unless a flag of the test names it.
func build(t *testing.T, program *string, module, pkg string, flags ...string) {
	t.Helper()
	if *program != "" {
		return
	}
	dir, err := os.MkdirTemp("", "flyball-conformance-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	cmd := exec.Command("go", slices.Concat([]string{"build", "-o", dir + string(filepath.Separator)}, flags, []string{pkg})...)
	cmd.Dir = module
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	*program = filepath.Join(dir, filepath.Base(pkg))
}

// world says how a control plane executes the images of the tests.
type world struct {
	flags   func() []string
	workers func() int
	has     func(spec string) bool
	alone   *sync.Mutex // held while a control plane of the world runs specs, unless it is nil
}

// nodes are flags for two nodes of usual sizes.
var nodes = []string{"--nodes=2", "--node-capacity=cpu=16,memory=64Gi,ephemeral-storage=200Gi,pods=500"}

var (
	// byScripts has images as data: programs of the shell in memory.
	byScripts = world{
		flags:   func() []string { return append(slices.Clone(nodes), "--script=testdata/images.yaml") },
		workers: func() int { return *workers },
		has:     func(spec string) bool { return !servesHTTPS(spec) },
	}
	// byProgram has Kubernetes' own program agnhost, as a process of this machine. The pods of all tests listen on the same
	// ports of this machine, so one test runs at a time.
	byProgram = world{
		flags: func() []string {
			return append(slices.Clone(nodes), "--image=registry.k8s.io/e2e-test-images/agnhost="+*agnhost)
		},
		workers: func() int { return 1 },
		has:     servesHTTPS,
		alone:   &sync.Mutex{},
	}
)

// httpsSpecs matches the specs with pods that serve HTTPS, which scripts cannot.
var httpsSpecs = regexp.MustCompile(`AdmissionWebhook |CustomResourceConversionWebhook |CustomResourceFieldSelectors `)

func servesHTTPS(spec string) bool { return httpsSpecs.MatchString(spec) }

// runOnServer starts a control plane of a world, and runs the specs of the world.
func runOnServer(t *testing.T, w world, specs []string) (all []result) {
	specs = slices.DeleteFunc(slices.Clone(specs), func(spec string) bool { return !w.has(spec) })
	if len(specs) == 0 {
		return nil
	}
	if w.alone != nil {
		w.alone.Lock()
		defer w.alone.Unlock()
	}
	dir := t.TempDir()
	return runSpecsOn(t, dir, startServer(t, dir, w.flags()), w.workers(), specs)
}

// runSpecsOn runs specs on a server, with flags of upstream's test program: first those that run at the same time as others, and
// then the serial ones.
func runSpecsOn(t *testing.T, dir, kubeconfig string, workers int, specs []string, flags ...string) (all []result) {
	t.Helper()
	var parallel, serial []string
	for _, name := range specs {
		if strings.Contains(name, "[Serial]") || strings.Contains(name, "[Disruptive]") {
			serial = append(serial, name)
		} else {
			parallel = append(parallel, name)
		}
	}
	rand.Shuffle(len(parallel), func(i, j int) { parallel[i], parallel[j] = parallel[j], parallel[i] })
	shards := make([][]string, min(workers, len(parallel)))
	for i, name := range parallel {
		shards[i%len(shards)] = append(shards[i%len(shards)], name)
	}
	results := make([][]result, len(shards))
	var wg sync.WaitGroup
	for i, shard := range shards {
		wg.Go(func() { results[i] = runShard(t, dir, fmt.Sprintf("shard-%d", i+1), kubeconfig, shard, flags) })
	}
	wg.Wait()
	all = slices.Concat(results...)
	if len(serial) > 0 {
		all = append(all, runShard(t, dir, "serial", kubeconfig, serial, flags)...)
	}
	return all
}

// startServer starts a control plane, and returns its kubeconfig. The control plane ends with the test.
func startServer(t *testing.T, dir string, flags []string) (kubeconfig string) {
	t.Helper()
	kubeconfig = filepath.Join(dir, "kubeconfig")
	cmd := exec.Command(*binary, append([]string{"up", "--kubeconfig", kubeconfig}, flags...)...)
	out, err := cmd.StdoutPipe()
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := errors.Join(err, cmd.Start()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended
		if err := cmd.Wait(); err != nil {
			t.Errorf("flyball up: %v: %s", err, &stderr)
		}
		if stderr.Len() > 0 {
			t.Logf("flyball up: %s", &stderr)
		}
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || !strings.HasPrefix(line, "ready in") {
		t.Fatalf("flyball up printed %q, %v: %s", line, err, &stderr)
	}
	go io.Copy(io.Discard, out) // until it ends
	return kubeconfig
}

// notRun is the message of a spec without a result.
const notRun = "it has not run"

// runShard runs specs in a process, and returns their results. A spec without a result has failed.
func runShard(t *testing.T, dir, name, kubeconfig string, specs, flags []string) (all []result) {
	var focus []string
	for _, spec := range specs {
		focus = append(focus, regexp.QuoteMeta(suiteName+" "+spec))
	}
	file := filepath.Join(dir, name+".json")
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if deadline, ok := t.Deadline(); ok { // before the test program itself is killed
		ctx, cancel = context.WithDeadline(ctx, deadline.Add(-30*time.Second))
		defer cancel()
	}
	cmd := exec.CommandContext(ctx, os.Args[0], append(slices.Clone(flags), "-test.run=^TestSpecs$", "-test.timeout=0",
		"-provider=skeleton", "-kubeconfig="+kubeconfig, "-kubectl-path="+*kubectl, "-e2e-output-dir="+dir, "-ginkgo.no-color",
		"-ginkgo.silence-skips", "-ginkgo.focus=^("+strings.Join(focus, "|")+")$")...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 20 * time.Second
	cmd.Env = append(os.Environ(), resultsVariable+"="+file)
	log, err := cmd.CombinedOutput()
	all, readErr := readResults(file)
	if readErr != nil || len(all) == 0 {
		t.Errorf("%s: no results, %v, %v: %s", name, err, readErr, tail(log))
	}
	for _, spec := range specs {
		if !slices.ContainsFunc(all, func(r result) bool { return r.Name == spec }) {
			all = append(all, result{Name: spec, Message: notRun})
		}
	}
	if *results != "" {
		if err := appendResults(all); err != nil {
			t.Error(err)
		}
	}
	return all
}

// tail returns the last lines of a log.
func tail(log []byte) []byte { return log[max(0, len(log)-4000):] }

// readResults reads a file of results.
func readResults(file string) (all []result, err error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	for decoder := json.NewDecoder(f); ; {
		var r result
		if err := decoder.Decode(&r); err == io.EOF {
			return all, nil
		} else if err != nil {
			return all, err
		}
		all = append(all, r)
	}
}

// appendResults appends results to the file that the flag names.
func appendResults(all []result) error {
	var text bytes.Buffer
	for _, r := range all {
		if err := json.NewEncoder(&text).Encode(r); err != nil {
			return err
		}
	}
	f, err := os.OpenFile(*results, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o666)
	if err != nil {
		return err
	}
	_, err = f.Write(text.Bytes())
	return errors.Join(err, f.Close())
}
