package robustness

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.etcd.io/etcd/server/v3/etcdmain"
	"go.etcd.io/etcd/tests/v3/robustness/traffic"

	_ "flyball.dev/internal/orphans"
	"flyball.dev/internal/reserve/reservetest"
	"flyball.dev/storage/datadir"
	"flyball.dev/storage/etcd"
	"flyball.dev/storage/etcdserver"
	"flyball.dev/storage/memory"
)

// The environment of a process that is a server of etcd's API over one of our stores, or a member of an etcd cluster, and
// not a test. The first has the configuration of the server.
const (
	serverVariable = "FLYBALL_TEST_SERVER"
	memberVariable = "FLYBALL_TEST_ETCD_MEMBER"
)

func TestMain(m *testing.M) {
	switch {
	case os.Getenv(memberVariable) != "":
		os.Unsetenv(memberVariable)
		etcdmain.Main(os.Args)
	case os.Getenv(serverVariable) != "":
		if err := serve(os.Getenv(serverVariable)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	default:
		os.Exit(m.Run())
	}
}

// configuration has the settings of a server.
type configuration struct {
	Address string
	// The store is in a directory, in an etcd cluster, or in memory.
	Dir       string
	Endpoints []string
	// Requests is the file for the requests that a store in memory has committed.
	Requests string
}

// serve runs a server until a signal ends it.
func serve(text string) error {
	var c configuration
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		return err
	}
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer cancel()
	store, err := c.open(ctx)
	if err != nil {
		return err
	}
	recorded := &recording{Store: store}
	served := store
	if c.Requests != "" { // else a log has the requests
		served = recorded
	}
	listener, err := net.Listen("tcp", c.Address)
	if err != nil {
		return err
	}
	server := etcdserver.New(etcdserver.Options{Store: served})
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener, nil) }()
	<-ctx.Done()
	server.Stop()
	err = errors.Join(<-ended, store.Close())
	if served == store {
		return err
	}
	requests, failed := json.Marshal(recorded.requests())
	return errors.Join(err, failed, os.WriteFile(c.Requests, requests, 0o600))
}

// history keeps all events: a revision that the store forgets by itself would be an error to the model.
var history = memory.Options{Retention: 24 * time.Hour, History: 1 << 30}

func (c *configuration) open(ctx context.Context) (etcdserver.Store, error) {
	switch {
	case c.Dir != "":
		return datadir.Open(c.Dir, datadir.Options{Memory: history})
	case len(c.Endpoints) > 0:
		return etcd.Open(ctx, etcd.Options{Endpoints: c.Endpoints, Prefixes: []etcd.Prefix{{}}, Memory: history})
	}
	return memory.New(history), nil
}

// process is a process of this program.
type process struct {
	t           testing.TB
	environment string
	args        []string
	url, log    string
	command     *exec.Cmd
	ended       chan struct{} // closed when the command has ended
}

func (p *process) start() {
	p.t.Helper()
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		p.t.Fatal(err)
	}
	defer log.Close()
	p.command = exec.Command(os.Args[0], p.args...)
	p.command.Env = append(os.Environ(), p.environment)
	p.command.Stdout, p.command.Stderr = log, log
	if err := p.command.Start(); err != nil {
		p.t.Fatal(err)
	}
	command, ended := p.command, make(chan struct{})
	p.ended = ended
	go func() {
		_ = command.Wait()
		close(ended)
	}()
	p.await()
}

// await waits until the process is healthy.
func (p *process) await() {
	p.t.Helper()
	client := &http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	for deadline := time.Now().Add(5 * time.Minute); time.Now().Before(deadline); <-time.After(10 * time.Millisecond) {
		if r, err := client.Get(p.url + "/health"); err == nil {
			r.Body.Close()
			if r.StatusCode == http.StatusOK && !p.hasEnded() { // or else another process has taken the port
				return
			}
		}
		if p.hasEnded() {
			break
		}
	}
	log, _ := os.ReadFile(p.log)
	p.t.Fatalf("%s has not started:\n%s", p.url, log)
}

func (p *process) hasEnded() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// end ends the process by a signal.
func (p *process) end(s syscall.Signal) {
	if p.command == nil {
		return
	}
	p.command.Process.Signal(syscall.SIGCONT)
	p.command.Process.Signal(s)
	<-p.ended
	p.command = nil
}

// The faults of a process. They are short: each request that fails may or may not have taken place, and every such request
// doubles the histories that the validation has to consider.

func (p *process) crash() {
	p.end(syscall.SIGKILL)
	<-time.After(50 * time.Millisecond)
	p.start()
}

func (p *process) pause() {
	p.command.Process.Signal(syscall.SIGSTOP)
	<-time.After(2 * traffic.RequestTimeout)
	p.command.Process.Signal(syscall.SIGCONT)
	p.await()
}

// server is a server of etcd's API behind a proxy.
type server struct {
	*process
	*proxy
}

func (s server) disconnect() {
	s.cut(true)
	<-time.After(100 * time.Millisecond)
	s.cut(false)
}

// startServer starts a server, which ends with the test.
func startServer(t testing.TB, c configuration) server {
	t.Helper()
	c.Address = reservetest.Address(t)
	text, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	p := &process{t: t, environment: serverVariable + "=" + string(text), url: "http://" + c.Address, log: filepath.Join(t.TempDir(), "log")}
	p.start()
	t.Cleanup(func() { p.end(syscall.SIGKILL) })
	return server{p, startProxy(t, c.Address)}
}

// startMembers starts an etcd cluster, which ends with the test, and returns its members and their directories.
func startMembers(t testing.TB, n int) (members []*process, dirs []string) {
	t.Helper()
	var initial, peers, clients []string
	for i := range n {
		clients, peers = append(clients, "http://"+reservetest.Address(t)), append(peers, "http://"+reservetest.Address(t))
		initial = append(initial, fmt.Sprintf("m%d=%s", i, peers[i]))
	}
	var starting sync.WaitGroup
	for i := range n {
		dir := t.TempDir()
		dirs = append(dirs, dir)
		m := &process{t: t, environment: memberVariable + "=true", url: clients[i], log: filepath.Join(t.TempDir(), "log"), args: []string{
			fmt.Sprintf("--name=m%d", i), "--data-dir=" + dir, "--listen-client-urls=" + clients[i], "--advertise-client-urls=" + clients[i],
			"--listen-peer-urls=" + peers[i], "--initial-advertise-peer-urls=" + peers[i], "--initial-cluster=" + strings.Join(initial, ","),
			"--heartbeat-interval=20", "--election-timeout=200", "--log-level=warn",
		}}
		members = append(members, m)
		starting.Go(m.start)
		t.Cleanup(func() { m.end(syscall.SIGKILL) })
	}
	starting.Wait()
	return members, dirs
}
