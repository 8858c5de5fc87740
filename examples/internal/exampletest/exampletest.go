// Package exampletest has the tests that every example passes.
package exampletest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"flyball.dev/controlplane"
	"flyball.dev/ctrl/console"
	"flyball.dev/ctrl/metrics"
	"flyball.dev/examples/internal/await"
	"flyball.dev/examples/internal/example"
	"flyball.dev/internal/reserve/reservetest"
)

// Tour runs the tour, in which the operator gives no warning of the manager's option Development.
func Tour(t *testing.T, e *example.Example) {
	t.Helper()
	before := Warnings(t)
	defer func() {
		if n := Warnings(t) - before; n != 0 {
			t.Errorf("%v warnings of the option Development", n)
		}
	}()
	var out bytes.Buffer
	err := e.Run(t.Context(), []string{"--tour"}, &out)
	t.Log("\n" + out.String())
	if err != nil {
		t.Fatal(err)
	}
}

// Warnings returns how many warnings of the option Development the managers of this process have
// given.
func Warnings(t *testing.T) (n float64) {
	t.Helper()
	families, err := metrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() == "flyball_development_warnings_total" {
			for _, metric := range family.GetMetric() {
				n += metric.GetCounter().GetValue()
			}
		}
	}
	return n
}

// timeout is how long an example may take for what a test waits for, which takes seconds on an idle machine.
const timeout = 5 * time.Minute

// Locally runs the example without flags in an empty folder, and stops it when it has written all of
// the texts. It has a console then.
func Locally(t *testing.T, e *example.Example, texts ...string) {
	t.Helper()
	t.Chdir(t.TempDir())
	t.Setenv("KUBECONFIG", "")
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	out := &seeker{texts: append(texts, "Ctrl-C stops everything."), found: make(chan string, 1)}
	served := make(chan error, 1)
	go func() { // the example may write while it answers
		defer cancel()
		select {
		case text := <-out.found:
			served <- hasConsole(ctx, text)
		case <-ctx.Done():
			served <- nil
		}
	}()
	err := e.Run(ctx, nil, out)
	cancel()
	noConsole := <-served
	if err != nil {
		t.Fatalf("%v\n%s", err, out.all.String())
	}
	if missing := out.missing(); len(missing) > 0 || !strings.HasSuffix(out.all.String(), "Stopped.\n") {
		t.Errorf("%q are not in\n%s", missing, out.all.String())
	}
	if noConsole != nil {
		t.Error(noConsole)
	}
	info, err := os.Stat(filepath.Join(".flyball", "kubeconfig"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the kubeconfig: %v, %v", info, err)
	}
}

// hasConsole fails unless an example that runs in this folder serves a console at the URL that it has written.
func hasConsole(ctx context.Context, written string) error {
	_, line, _ := strings.Cut(written, "The console is at ")
	url, _, _ := strings.Cut(line, "\n")
	page, token, _ := strings.Cut(url, "?token=")
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, page+"api/now", nil)
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+token)
	response, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	var now console.Now
	if err := json.NewDecoder(response.Body).Decode(&now); err != nil || response.StatusCode != http.StatusOK {
		return fmt.Errorf("the console answers %s, %v", response.Status, err)
	}
	content, err := os.ReadFile(console.DefaultURLFile) // it is there before the console answers
	if err == nil && string(content) != url+"\n" {
		err = fmt.Errorf("the file of the console has %q, want %s", content, url)
	}
	return err
}

// seeker sends what has been written to it, once it has all texts. Its user writes to it from one goroutine at a time.
type seeker struct {
	all   bytes.Buffer
	texts []string
	found chan string // has room for one
}

func (s *seeker) Write(p []byte) (int, error) {
	n, err := s.all.Write(p)
	if len(s.missing()) == 0 {
		select {
		case s.found <- s.all.String():
		default: // sent already
		}
	}
	return n, err
}

// missing returns the texts that have not been written.
func (s *seeker) missing() []string {
	var all []string
	for _, text := range s.texts {
		if !strings.Contains(s.all.String(), text) {
			all = append(all, text)
		}
	}
	return all
}

// OnCluster runs the example against the kubeconfig of a control plane, over HTTPS, after it was
// refused because the definitions are missing there, if the example has any. Then it creates the
// samples and calls check; the operator is stopped when that returns.
func OnCluster(t *testing.T, e *example.Example, check func(context.Context, *example.World) error) {
	t.Helper()
	plane, err := controlplane.Start(t.Context(), controlplane.Options{Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	defer plane.Stop()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(file, plane.Kubeconfig(), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"--kubeconfig", file, "--leader-elect", "--zap-log-level", "error"}
	if e.Webhooks != nil {
		args = append(args, "--webhook-port", strconv.Itoa(reservetest.Port(t)))
	}
	if _, err := fs.Stat(e.Config, "crd"); err == nil {
		err := e.Run(t.Context(), args, io.Discard)
		if err == nil || !strings.Contains(err.Error(), "config/crd/bases first") {
			t.Fatalf("without the definitions: %v", err)
		}
	}
	w, err := example.NewWorld(t.Context(), e, plane.Config())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx, args, io.Discard) }()
	if err := webhooksInstalled(ctx, e, w); err != nil {
		t.Error(err)
	} else if _, err := w.CreateSamples(ctx); err != nil {
		t.Error(err)
	} else if err := within(ctx, w, check); err != nil {
		t.Error(err)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// within calls check with a context that ends after the timeout.
func within(ctx context.Context, w *example.World, check func(context.Context, *example.World) error) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return check(ctx, w)
}

// webhooksInstalled waits until the operator has installed its webhooks, if the example has any. The
// API server converts nothing before.
func webhooksInstalled(ctx context.Context, e *example.Example, w *example.World) error {
	if e.Webhooks == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return await.Until(ctx, w.Client, &admissionregistrationv1.MutatingWebhookConfigurationList{},
		func(all []*admissionregistrationv1.MutatingWebhookConfiguration) string {
			for _, configuration := range all {
				if strings.HasPrefix(configuration.Name, e.Name+"-") {
					return ""
				}
			}
			return "the webhooks of the operator are not installed"
		})
}
