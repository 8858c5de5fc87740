package main

import (
	"context"
	"flag"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"flyball.dev/internal/reserve/reservetest"
)

// etcdOutput runs the stand-in for etcd until it exits.
func etcdOutput(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, err strings.Builder
	code = etcd(t.Context(), args, &out, &err)
	return code, out.String(), err.String()
}

func TestEtcdExits(t *testing.T) {
	if code, out, _ := etcdOutput(t, "--version"); code != 0 || !strings.HasPrefix(out, "etcd Version: 3.") {
		t.Errorf("--version: %d, %s", code, out)
	}
	code, out, _ := etcdOutput(t, "--help")
	if code != 0 || !regexp.MustCompile(`(?m)^\s*--unsafe-no-fsync\b`).MatchString(out) {
		t.Errorf("--help: %d, %s", code, out)
	}
	if code, _, err := etcdOutput(t, "--bogus"); code != 2 || !strings.HasPrefix(err, "flag provided but not defined: -bogus\n") {
		t.Errorf("an unknown flag: %d, %s", code, err)
	}
	if code, _, err := etcdOutput(t, "gateway"); code != 1 || !strings.Contains(err, `"gateway" is not supported`) {
		t.Errorf("a command: %d, %s", code, err)
	}
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	urls := []string{"--data-dir", t.TempDir(), "--listen-peer-urls=http://127.0.0.1:0", "--listen-client-urls=http://" + busy.Addr().String()}
	if code, _, err := etcdOutput(t, urls...); code != 1 || !strings.Contains(err, "cannot listen on "+busy.Addr().String()+": ") {
		t.Errorf("a port in use: %d, %s", code, err)
	}
	if code, _, err := etcdOutput(t, "--data-dir", t.TempDir(), "--listen-client-urls=127.0.0.1:1"); code != 1 || err == "" {
		t.Errorf("a URL without a scheme: %d, %s", code, err)
	}
}

// TestEtcdServes sends the requests of envtest and other clients.
func TestEtcdServes(t *testing.T) {
	data, address := filepath.Join(t.TempDir(), "data"), reservetest.Address(t)
	fs := flag.NewFlagSet("etcd", flag.ContinueOnError)
	addEtcdFlags(fs)
	if err := fs.Parse([]string{"--data-dir=" + data, "--listen-client-urls=http://" + address, "--unsafe-no-fsync=true",
		"--listen-peer-urls=http://127.0.0.1:0", "--advertise-client-urls=http://127.0.0.1:0"}); err != nil {
		t.Fatal(err)
	}
	s, err := newEtcdServer(fs)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- s.serve(ctx) }()
	for path, want := range map[string]string{"/health": `"health":"true"`, "/readyz": "ok", "/version": `"etcdserver":"3.`} {
		resp, err := http.Get("http://" + address + path)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != http.StatusOK || !strings.Contains(string(body), want) {
			t.Errorf("%s: %s %s", path, resp.Status, body)
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if _, err := net.Dial("tcp", address); err == nil {
		t.Error("it still listens")
	}
}
