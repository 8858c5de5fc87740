package controlplane_test

import (
	"bytes"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/tools/clientcmd"

	"flyball.dev/controlplane"
	"flyball.dev/ctrl/client/config"
	"flyball.dev/internal/reserve/reservetest"
)

// TestKubeconfigFile checks that the kubeconfig of a running control plane is not replaced, and that clients report
// when the control plane of a kubeconfig has ended.
func TestKubeconfigFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "new", "kubeconfig")
	t.Setenv(clientcmd.RecommendedConfigPathEnvVar, file)
	options := controlplane.Options{Listen: reservetest.Address(t), KubeconfigFile: file, WithoutControllers: true}
	first, err := controlplane.Start(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	written, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := config.GetConfig(); err != nil {
		t.Errorf("the control plane runs: %v", err)
	}
	if second, err := controlplane.Start(t.Context(), options); err == nil {
		second.Stop()
		t.Error("a second control plane has started with the same kubeconfig file")
	} else if want := "the control plane of the kubeconfig " + file + " runs already, at " + first.URL(); !strings.Contains(err.Error(), want) {
		t.Errorf("error is %q, want %q", err, want)
	}
	if now, err := os.ReadFile(file); err != nil || !bytes.Equal(now, written) {
		t.Errorf("the kubeconfig has changed: %v", err)
	}
	if err := first.Stop(); err != nil {
		t.Fatal(err)
	}
	_, err = config.GetConfig()
	if err == nil {
		t.Fatal("no error for a control plane that has ended")
	}
	for _, want := range []string{"nobody answers at " + first.URL(), file, filepath.Base(os.Args[0])} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error is %q, want %q in it", err, want)
		}
	}
	again, err := controlplane.Start(t.Context(), options)
	if err != nil {
		t.Fatalf("after the first has ended: %v", err)
	}
	if err := again.Stop(); err != nil {
		t.Error(err)
	}
}

// TestKubeconfigFileOfAnotherServer: a server that has taken over the port of a control plane is not that
// control plane.
func TestKubeconfigFileOfAnotherServer(t *testing.T) {
	file := filepath.Join(t.TempDir(), "kubeconfig")
	address := reservetest.Address(t)
	options := controlplane.Options{Listen: address, KubeconfigFile: file, WithoutControllers: true}
	first, err := controlplane.Start(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Stop(); err != nil {
		t.Fatal(err)
	}
	other, err := controlplane.Start(t.Context(), controlplane.Options{Listen: address, WithoutControllers: true})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Stop()
	options.Listen = "127.0.0.1:0"
	again, err := controlplane.Start(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	again.Stop()
}

// TestKubeconfigFileOfOthers: a kubeconfig that somebody else has written is not replaced, whether or not its clusters
// answer.
func TestKubeconfigFileOfOthers(t *testing.T) {
	cluster := func(names ...string) string {
		text := "apiVersion: v1\nkind: Config\nclusters:\n"
		for _, name := range names {
			text += "- name: " + name + "\n  cluster: {server: 'https://127.0.0.1:1'}\n"
		}
		return text
	}
	for name, content := range map[string]string{
		"a cluster":                     cluster("production"),
		"a control plane and a cluster": cluster("flyball", "production"),
		"no cluster":                    "apiVersion: v1\nkind: Config\nusers:\n- name: ann\n  user: {token: secret}\n",
		"not a kubeconfig":              "my notes: [\n",
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "config")
			if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
			plane, err := controlplane.Start(t.Context(), controlplane.Options{Listen: "127.0.0.1:0", KubeconfigFile: file, WithoutControllers: true})
			if err == nil {
				plane.Stop()
			}
			if err == nil || !strings.Contains(err.Error(), "is not replaced") {
				t.Errorf("error is %v", err)
			}
			if now, err := os.ReadFile(file); err != nil || string(now) != content {
				t.Errorf("the file is %q, %v", now, err)
			}
		})
	}
}

// TestKubeconfigFileNeedsListen: nothing could connect with the file, and nothing is left of the attempt.
func TestKubeconfigFileNeedsListen(t *testing.T) {
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if _, err := controlplane.Start(t.Context(), controlplane.Options{KubeconfigFile: file}); err == nil {
		t.Error("no error")
	}
	if _, err := os.Stat(file); !os.IsNotExist(err) {
		t.Errorf("the file exists: %v", err)
	}
}

// TestKubeconfigFileCannotBeWritten: the listener is closed again.
func TestKubeconfigFileCannotBeWritten(t *testing.T) {
	blocker := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(blocker, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	address := reservetest.Address(t)
	_, err := controlplane.Start(t.Context(), controlplane.Options{
		Listen: address, KubeconfigFile: filepath.Join(blocker, "kubeconfig"), WithoutControllers: true,
	})
	if err == nil || !strings.Contains(err.Error(), "cannot write the kubeconfig") {
		t.Errorf("error is %v", err)
	}
	if listener, err := net.Listen("tcp", address); err != nil {
		t.Errorf("the port is in use: %v", err)
	} else {
		listener.Close()
	}
}
