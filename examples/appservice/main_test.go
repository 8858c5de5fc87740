package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestTour(t *testing.T) {
	var out bytes.Buffer
	err := run(t.Context(), []string{"--tour"}, &out)
	t.Log("\n" + out.String())
	if err != nil {
		t.Fatal(err)
	}
}

// TestHere starts everything, as a newcomer does, and stops it when the sample is ready.
func TestHere(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("KUBECONFIG", "")
	ctx, cancel := context.WithCancelCause(t.Context())
	out := &seeker{text: "Ready is True.", found: func() { cancel(errors.New("interrupted, as by Ctrl-C")) }}
	if err := run(ctx, nil, out); err != nil {
		t.Fatalf("%v\n%s", err, out.all.String())
	}
	for _, want := range []string{"kubectl get appservices", "Deployment created.", "Service created.", "Ready is True.", "Stopped."} {
		if !strings.Contains(out.all.String(), want) {
			t.Errorf("%q is not in\n%s", want, out.all.String())
		}
	}
	info, err := os.Stat(filepath.Join(".flyball", "kubeconfig"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the kubeconfig: %v, %v", info, err)
	}
}

// seeker calls found when the text is written to it.
type seeker struct {
	all   bytes.Buffer
	text  string
	found func()
}

func (s *seeker) Write(p []byte) (int, error) {
	n, err := s.all.Write(p)
	if strings.Contains(s.all.String(), s.text) {
		s.found()
	}
	return n, err
}

func TestComplaints(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "kubeconfig")
	unreachable := filepath.Join(t.TempDir(), "kubeconfig")
	write(t, unreachable, `{"apiVersion":"v1","kind":"Config","current-context":"c","clusters":[{"name":"c","cluster":{"server":"http://127.0.0.1:1"}}],"contexts":[{"name":"c","context":{"cluster":"c"}}]}`)
	for _, tt := range []struct {
		name string
		args []string
		want string
	}{
		{"an argument", []string{"up"}, `what is "up"?`},
		{"no such file", []string{"--kubeconfig", empty}, "the kubeconfig cannot be used"},
		{"nobody there", []string{"--kubeconfig", unreachable}, "the cluster at http://127.0.0.1:1 cannot be reached"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := run(t.Context(), tt.args, &bytes.Buffer{})
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}
