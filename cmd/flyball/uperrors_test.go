package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestUpErrors starts control planes with flags that cannot work. The error says why.
func TestUpErrors(t *testing.T) {
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty.pem")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"--etcd-cafile", empty}, "--etcd-cafile, --etcd-certfile and --etcd-keyfile need --etcd-servers"},
		{[]string{"--etcd-servers", "http://127.0.0.1:1", "--data-dir", dir}, "none of the others can be"},
		{[]string{"--etcd-servers", "https://127.0.0.1:1", "--etcd-cafile", empty}, "has no certificate in PEM"},
		{[]string{"--etcd-servers", "https://127.0.0.1:1", "--etcd-cafile", filepath.Join(dir, "none")}, "--etcd-cafile: open "},
		{[]string{"--etcd-servers", "https://127.0.0.1:1", "--etcd-certfile", empty}, "--etcd-certfile and --etcd-keyfile: "},
		{[]string{"--etcd-servers", "127.0.0.1:1"}, "127.0.0.1:1: not a URL such as https://10.0.0.1:2379"},
		{[]string{"--encryption-provider-config-automatic-reload"}, "needs --encryption-provider-config"},
		{[]string{"--encryption-provider-config", filepath.Join(dir, "none")}, "none: error while parsing file"},
		{[]string{"--etcd-servers", "http://127.0.0.1:1"}, "etcd cannot be reached: http://127.0.0.1:1: dial tcp"},
	} {
		cmd := up()
		var out bytes.Buffer
		cmd.SetOut(&out)
		cmd.SetErr(&out)
		cmd.SilenceUsage = true
		cmd.SetArgs(append(test.args, "--kubeconfig", filepath.Join(dir, "kubeconfig")))
		if err := cmd.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%q: %v; want an error with %q", test.args, err, test.want)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "kubeconfig")); err == nil {
		t.Error("there is a kubeconfig")
	}
}
