package config

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// writeKubeconfig writes a kubeconfig with a context for each of the hosts; the first
// one is the current.
func writeKubeconfig(t *testing.T, path string, hosts ...string) string {
	t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "apiVersion: v1\nkind: Config\ncurrent-context: %s\n", hosts[0])
	b.WriteString("clusters:\n")
	for _, h := range hosts {
		fmt.Fprintf(&b, "- {name: %s, cluster: {server: 'https://%s'}}\n", h, h)
	}
	b.WriteString("contexts:\n")
	for _, h := range hosts {
		fmt.Fprintf(&b, "- {name: %s, context: {cluster: %s}}\n", h, h)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestPrecedence(t *testing.T) {
	pod := func() (*rest.Config, error) { return &rest.Config{Host: "https://pod"}, nil }
	noPod := func() (*rest.Config, error) { return nil, errors.New("no pod") }
	tests := []struct {
		name            string
		flag, env, home bool
		pod             func() (*rest.Config, error)
		context         string
		want            string
		err             string
	}{
		{name: "flag", flag: true, env: true, home: true, pod: pod, want: "https://flag"},
		{name: "environment", env: true, home: true, pod: pod, want: "https://env"},
		{name: "pod", home: true, pod: pod, want: "https://pod"},
		{name: "home", home: true, pod: noPod, want: "https://home"},
		{name: "nothing", pod: noPod, err: "no pod"},
		{name: "another context", flag: true, pod: noPod, context: "other", want: "https://other"},
		{name: "no such context", flag: true, pod: noPod, context: "none", err: "none"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			t.Setenv("KUBECONFIG", "")
			home := clientcmd.RecommendedHomeFile
			defer func() { clientcmd.RecommendedHomeFile = home }()
			clientcmd.RecommendedHomeFile = filepath.Join(dir, "home", "config")
			fs := flag.NewFlagSet("", flag.ContinueOnError)
			before := kubeconfigFlags
			defer func() { kubeconfigFlags = before }()
			RegisterFlags(fs)
			if tt.flag {
				if err := fs.Parse([]string{"-kubeconfig", writeKubeconfig(t, filepath.Join(dir, "flag"), "flag", "other")}); err != nil {
					t.Fatal(err)
				}
			}
			if tt.env {
				t.Setenv("KUBECONFIG", writeKubeconfig(t, filepath.Join(dir, "env"), "env"))
			}
			if tt.home {
				writeKubeconfig(t, clientcmd.RecommendedHomeFile, "home")
			}
			cfg, err := load(tt.context, tt.pod)
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Fatalf("error %v, want one with %q", err, tt.err)
				}
				return
			}
			if err != nil || cfg.Host != tt.want {
				t.Errorf("got %v, %v; want %s", cfg, err, tt.want)
			}
		})
	}
}

func TestNoRateLimit(t *testing.T) {
	t.Setenv("KUBECONFIG", writeKubeconfig(t, filepath.Join(t.TempDir(), "config"), "server"))
	cfg, err := GetConfig()
	if err != nil || cfg.QPS != -1 {
		t.Errorf("got %v, %v", cfg, err)
	}
}

// TestExistingKubeconfigFlag checks that a flag which the program has defined is used.
func TestExistingKubeconfigFlag(t *testing.T) {
	before := kubeconfigFlags
	defer func() { kubeconfigFlags = before }()
	fs := flag.NewFlagSet("", flag.ContinueOnError)
	own := fs.String(KubeconfigFlagName, "", "")
	RegisterFlags(fs)
	*own = "theirs"
	if got := flagValue(); got != "theirs" {
		t.Errorf("got %q", got)
	}
	RegisterFlags(nil) // the command line has it already
}
