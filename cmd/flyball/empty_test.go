package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestEmptyValues runs commands with values that are empty, as a script has them without its variable. No command may go on
// as without the flag, and keep objects in memory or in plain text.
func TestEmptyValues(t *testing.T) {
	t.Chdir(t.TempDir())
	existing := filepath.Join(t.TempDir(), "data")
	for _, args := range []string{
		"up --data-dir=", "up --data-dir= --etcd-servers=http://127.0.0.1:1", "up --etcd-servers=", "up --etcd-servers=,", "up --etcd-servers=http://127.0.0.1:1,",
		"up --etcd-prefix=", "up --etcd-cafile=", "up --etcd-certfile=", "up --etcd-keyfile=", "up --encryption-provider-config=", "up --snapshot=",
		"up --listen=", "up --apiserver-cert-extra-sans=", "up --apiserver-cert-extra-sans=a,", "up --kubeconfig=", "up --authorization-mode=", "up --audit-policy-file=", "up --audit-log-path=", "up --audit-log-format=",
		"dev --data-dir=", "dev --listen=", "dev --kubeconfig=",
		"snapshot save file --kubeconfig=", "snapshot restore file --data-dir=", "kubeconfig --user=", "kubeconfig --user=ann --kubeconfig=", "kubeconfig --user=ann --output=",
		"snapshot save ''", "snapshot show ''", "snapshot restore '' --data-dir=" + existing, "data check ''", "data check --repair ''",
	} {
		var split []string
		for arg := range strings.FieldsSeq(args) {
			split = append(split, strings.Trim(arg, "'"))
		}
		var out bytes.Buffer
		cmd := root()
		cmd.SetOut(&out)
		cmd.SetErr(&out)
		cmd.SetArgs(split)
		err := cmd.ExecuteContext(t.Context())
		if err == nil || !strings.Contains(err.Error(), "must not be empty") || strings.Contains(err.Error(), "\n") {
			t.Errorf("flyball %s: error %v", args, err)
		}
		if out.Len() > 0 {
			t.Errorf("flyball %s: printed %q", args, out.String())
		}
	}
	if entries, err := os.ReadDir("."); err != nil || len(entries) > 0 {
		t.Errorf("the folder has %v, %v", entries, err)
	}
	if _, err := os.Stat(existing); err == nil {
		t.Error("a data directory was made")
	}
}
