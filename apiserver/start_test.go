package apiserver

import (
	"crypto/ed25519"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"flyball.dev/apiserver/auditlog"
	"flyball.dev/apiserver/serviceaccount"
	"flyball.dev/storage/memory"
)

// TestFailedStartClosesTheAuditLog checks that a server that cannot start leaves no file open.
func TestFailedStartClosesTheAuditLog(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("/proc lists the open files")
	}
	_, unsupported, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	policy, log := filepath.Join(dir, "policy.yaml"), filepath.Join(dir, "audit.log")
	if err := os.WriteFile(policy, []byte("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	store := memory.New(memory.Options{})
	defer store.Close()
	_, err = New(Options{
		Storage:         store,
		Audit:           auditlog.Options{PolicyFile: policy, LogPath: log},
		ServiceAccounts: serviceaccount.Options{SigningKey: unsupported},
	})
	if err == nil {
		t.Fatal("a server with an unsupported signing key has started")
	}
	files, err := filepath.Glob("/proc/self/fd/*")
	if err != nil || len(files) == 0 {
		t.Fatalf("no open files: %v", err)
	}
	for _, file := range files {
		if target, _ := os.Readlink(file); target == log {
			t.Error("the audit log is still open")
		}
	}
}

// TestChangesOfPluginsMadeLate checks that requests may make admission plugins at the same time, and that a plugin made
// while the server stops leaves no watch behind.
func TestChangesOfPluginsMadeLate(t *testing.T) {
	store := memory.New(memory.Options{})
	defer store.Close()
	o := &objects{server: &Server{options: Options{Storage: store}}}
	const plugins, each = 8, 500
	var all sync.WaitGroup
	for range plugins {
		all.Go(func() {
			for range each {
				o.Changed(corev1.Resource("namespaces"))
			}
		})
	}
	all.Wait()
	if len(o.changes) != plugins*each {
		t.Errorf("the server closes %d watches of %d", len(o.changes), plugins*each)
	}
	o.close()
	o.Changed(corev1.Resource("namespaces"))()
	for _, c := range o.changes {
		if c.watcher != nil {
			t.Error("a watch that begins while the server stops stays open")
		}
	}
}
