package etcd

import (
	"cmp"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.etcd.io/etcd/server/v3/etcdmain"
	"go.uber.org/goleak"

	_ "flyball.dev/internal/orphans"
	"flyball.dev/internal/reserve/reservetest"
)

// program is a flag.
var program = flag.String("etcd", "", "the `file` of a program that the tests run in place of the etcd of this module, such as an older release")

// member is set in the environment of a process that is a member of an etcd cluster, and not a test.
const member = "FLYBALL_TEST_ETCD_MEMBER"

func TestMain(m *testing.M) {
	if os.Getenv(member) != "" {
		os.Unsetenv(member)
		etcdmain.Main(os.Args)
		return
	}
	if urls := os.Getenv(plane); urls != "" {
		if err := runPlane(strings.Split(urls, ",")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("go.opencensus.io/stats/view.(*worker).start"))
}

// process is a member of a cluster.
type process struct {
	url     string // for clients
	args    []string
	command *exec.Cmd
	log     string
	// peers and clients are between the member and the others, and between it and the clients, if the cluster is behind
	// proxies. The url leads to the latter.
	peers, clients *proxy
}

// cluster is an etcd cluster. The members are processes of the real etcd, with short timeouts.
type cluster struct {
	t       testing.TB
	members []*process
}

// behindProxies is an option of startCluster.
const behindProxies = true

// startCluster starts a cluster of n members, which ends with the test.
func startCluster(t testing.TB, n int, proxies ...bool) *cluster {
	t.Helper()
	c := &cluster{t: t}
	dir := t.TempDir()
	var initial []string
	for i := range n {
		url, peer := "http://"+reservetest.Address(t), "http://"+reservetest.Address(t)
		m := &process{url: url, log: filepath.Join(dir, fmt.Sprintf("m%d.log", i))}
		advertised := peer
		if len(proxies) > 0 {
			m.peers, m.clients = startProxy(t, peer), startProxy(t, url)
			m.url, advertised = m.clients.url, m.peers.url
		}
		initial = append(initial, fmt.Sprintf("m%d=%s", i, advertised))
		m.args = []string{
			fmt.Sprintf("--name=m%d", i), "--data-dir=" + filepath.Join(dir, fmt.Sprintf("m%d", i)), "--unsafe-no-fsync",
			"--listen-client-urls=" + url, "--advertise-client-urls=" + url, "--listen-peer-urls=" + peer,
			"--initial-advertise-peer-urls=" + advertised, "--heartbeat-interval=20", "--election-timeout=200", "--log-level=warn",
		}
		c.members = append(c.members, m)
	}
	for _, m := range c.members {
		m.args = append(m.args, "--initial-cluster="+strings.Join(initial, ","))
	}
	for _, m := range c.members {
		c.start(m)
	}
	for _, m := range c.members {
		c.await(m)
	}
	t.Cleanup(func() {
		for _, m := range c.members {
			c.kill(m)
		}
	})
	return c
}

// endpoints returns the URLs of all members.
func (c *cluster) endpoints() (urls []string) {
	for _, m := range c.members {
		urls = append(urls, m.url)
	}
	return urls
}

// start starts the process of a member.
func (c *cluster) start(m *process) {
	c.t.Helper()
	log, err := os.OpenFile(m.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		c.t.Fatal(err)
	}
	defer log.Close()
	m.command = exec.Command(cmp.Or(*program, os.Args[0]), m.args...)
	m.command.Env = append(os.Environ(), member+"=true")
	m.command.Stdout, m.command.Stderr = log, log
	if err := m.command.Start(); err != nil {
		c.t.Fatal(err)
	}
}

// await waits until a member is healthy.
func (c *cluster) await(m *process) {
	c.t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		if r, err := http.Get(m.url + "/health"); err == nil {
			io.Copy(io.Discard, r.Body)
			r.Body.Close()
			if r.StatusCode == http.StatusOK {
				http.DefaultClient.CloseIdleConnections()
				return
			}
		}
		<-time.After(10 * time.Millisecond)
	}
	log, _ := os.ReadFile(m.log)
	c.t.Fatalf("etcd has not started:\n%s", log)
}

// kill kills the process of a member.
func (c *cluster) kill(m *process) {
	if m.command == nil {
		return
	}
	m.command.Process.Signal(syscall.SIGCONT)
	m.command.Process.Kill()
	m.command.Wait()
	m.command = nil
}

// cut cuts a member off from its clients, and the other members off from it, until it is called with false.
func (c *cluster) cut(m *process, is bool) {
	m.peers.cut(is)
	m.clients.cut(is)
}

// pause stops the process of a member until resume.
func (c *cluster) pause(m *process)  { m.command.Process.Signal(syscall.SIGSTOP) }
func (c *cluster) resume(m *process) { m.command.Process.Signal(syscall.SIGCONT) }
