package etcd

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"flyball.dev/controlplane"
	"flyball.dev/storage/etcd"
)

// plane is set in the environment of a process that is a control plane, and not a test. It has the URLs of the etcd cluster.
const plane = "FLYBALL_TEST_PLANE"

// runPlane runs a control plane without controllers until the standard input ends. It writes its kubeconfig as a line of JSON.
func runPlane(endpoints []string) error {
	s, err := etcd.Open(context.Background(), etcd.Options{Endpoints: endpoints})
	if err != nil {
		return err
	}
	p, err := controlplane.Start(context.Background(), controlplane.Options{Storage: s, Shared: true, WithoutControllers: true,
		Listen: "127.0.0.1:0", AdvertiseAddress: netip.MustParseAddr("203.0.113.1")})
	if err != nil {
		return err
	}
	if err := json.NewEncoder(os.Stdout).Encode(p.Kubeconfig()); err != nil {
		return err
	}
	io.Copy(io.Discard, os.Stdin)
	return p.Stop()
}

// planeProcess is a control plane in a process of its own.
type planeProcess struct {
	pid    int
	config *rest.Config
	https  *http.Client
}

// startPlaneProcess starts a control plane that ends with the test.
func startPlaneProcess(t testing.TB, c *cluster) *planeProcess {
	t.Helper()
	command := exec.Command(os.Args[0])
	command.Env = append(os.Environ(), plane+"="+strings.Join(c.endpoints(), ","))
	var log bytes.Buffer
	command.Stderr = &log
	in, err := command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		if err := command.Wait(); err != nil {
			t.Errorf("the control plane: %v\n%s", err, &log)
		}
	})
	var kubeconfig []byte
	if err := json.NewDecoder(out).Decode(&kubeconfig); err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	config.QPS = -1
	https, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(https.CloseIdleConnections)
	return &planeProcess{command.Process.Pid, config, https}
}

// cpu returns the CPU time that a process has taken, as Linux reports it.
func cpu(t testing.TB, pid int) time.Duration {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	const tick = 10 * time.Millisecond
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	user, userErr := strconv.Atoi(fields[11])
	system, systemErr := strconv.Atoi(fields[12])
	if userErr != nil || systemErr != nil {
		t.Fatalf("/proc/%d/stat is %q", pid, text)
	}
	return time.Duration(user+system) * tick
}

// ranges returns the number of reads that a member of etcd has answered.
func ranges(t testing.TB, m *process) (n int) {
	t.Helper()
	r, err := http.Get(m.url + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	for lines := bufio.NewScanner(r.Body); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), " ")
		if strings.HasPrefix(name, "grpc_server_handled_total{") && strings.Contains(name, `grpc_method="Range"`) {
			count, err := strconv.ParseFloat(value, 64)
			if err != nil {
				t.Fatal(err)
			}
			n += int(count)
		}
	}
	return n
}

// read sends n requests to a server, with eight clients.
func (p *planeProcess) read(t testing.TB, n int, path string) {
	t.Helper()
	var group sync.WaitGroup
	for w := range 8 {
		group.Go(func() {
			for i := w; i < n; i += 8 {
				if err := p.get(path); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
}

// get reads a path.
func (p *planeProcess) get(path string) error {
	r, err := p.https.Get(p.config.Host + path)
	if err != nil {
		return err
	}
	defer r.Body.Close()
	if r.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", path, r.Status)
	}
	_, err = io.Copy(io.Discard, r.Body)
	return err
}

// The reads of BenchmarkReads. A read with resourceVersion=0 is cached: any state will do.
var reads = []struct {
	name, path string
	n          int
}{
	{"get", "/api/v1/namespaces/default/configmaps/c-007", 4000},
	{"cached-get", "/api/v1/namespaces/default/configmaps/c-007?resourceVersion=0", 4000},
	{"list", "/api/v1/namespaces/default/configmaps", 200},
	{"cached-list", "/api/v1/namespaces/default/configmaps?resourceVersion=0", 200},
}

// createConfigMaps creates the objects that the reads are for.
func createConfigMaps(t testing.TB, p *planeProcess) {
	t.Helper()
	writer := clientFor(t, p.config)
	for i := range 500 {
		m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("c-%03d", i)}, Data: map[string]string{"key": strings.Repeat("value ", 100)}}
		if err := writer.Create(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
}

// BenchmarkReads compares the CPU time for a read of one server with the one of two servers on the same etcd: all reads go to one, and
// then a half to each. The halves follow each other, since two servers at once on the processors of one machine would compete
// for them. The CPU time of both servers counts all the while. The benchmark also counts the reads of etcd and its CPU time for a read.
func BenchmarkReads(b *testing.B) {
	if runtime.GOOS != "linux" {
		b.Skip("the CPU time of a process is read from /proc")
	}
	c := startCluster(b, 1)
	one, two := startPlaneProcess(b, c), startPlaneProcess(b, c)
	createConfigMaps(b, one)
	m := c.members[0]
	for _, r := range reads {
		b.Run(r.name, func(b *testing.B) {
			one.read(b, r.n, r.path) // so that both have decoded what they serve
			two.read(b, r.n, r.path)
			var alone, shared, ratios []float64
			asked, etcdTime, n := ranges(b, m), cpu(b, m.command.Process.Pid), 0
			for b.Loop() {
				for range 7 {
					began := cpu(b, one.pid)
					one.read(b, 2*r.n, r.path)
					spent := cpu(b, one.pid) - began
					began = cpu(b, one.pid) + cpu(b, two.pid)
					one.read(b, r.n, r.path)
					two.read(b, r.n, r.path)
					both := cpu(b, one.pid) + cpu(b, two.pid) - began
					alone = append(alone, float64(spent.Microseconds())/float64(2*r.n))
					shared = append(shared, float64(both.Microseconds())/float64(2*r.n))
					ratios = append(ratios, float64(both)/float64(spent))
					n += 4 * r.n
				}
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(median(alone), "one-µs/read")
			b.ReportMetric(median(shared), "two-µs/read")
			b.ReportMetric(median(ratios), "ratio")
			b.ReportMetric(float64(ranges(b, m)-asked)/float64(n), "etcd-reads/read")
			b.ReportMetric(float64((cpu(b, m.command.Process.Pid)-etcdTime).Microseconds())/float64(n), "etcd-µs/read")
		})
	}
}

func median(list []float64) float64 {
	slices.Sort(list)
	return list[len(list)/2]
}

// TestCachedReads: the load of etcd does not grow with cached reads, and they need no etcd.
func TestCachedReads(t *testing.T) {
	c := startCluster(t, 1)
	s := startPlaneProcess(t, c)
	createConfigMaps(t, s)
	m := c.members[0]
	during := func(n int, path string) int {
		before := ranges(t, m)
		s.read(t, n, path)
		return ranges(t, m) - before
	}
	const n = 800
	for _, r := range reads {
		asked := during(n, r.path)
		if cached := strings.HasPrefix(r.name, "cached-"); cached && asked > n/20 { // of the server's own
			t.Errorf("%s: etcd has answered %d reads for %d", r.name, asked, n)
		} else if !cached && asked > n+n/20 {
			t.Errorf("%s: etcd has answered %d reads for %d", r.name, asked, n)
		}
	}
	c.pause(m)
	defer c.resume(m)
	for _, r := range reads {
		if strings.HasPrefix(r.name, "cached-") {
			s.read(t, 8, r.path)
		}
	}
}
