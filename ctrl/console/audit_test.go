package console

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"flyball.dev/apiserver/auditlog"
	"flyball.dev/ctrl/internal/observe"
	"flyball.dev/ctrl/metrics"
)

// trail is an audit log in memory.
type trail struct {
	mu     sync.Mutex
	events []auditv1.Event
}

func (a *trail) Write(p []byte) (int, error) {
	var e auditv1.Event
	if err := json.Unmarshal(p, &e); err != nil {
		return 0, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.events = append(a.events, e)
	return len(p), nil
}

// TestAuditLog compares the writes of all reconciles of 16 workers with the audit log of the API server: no write is
// missing, and none is invented. The figures equal the metrics.
func TestAuditLog(t *testing.T) {
	policy := filepath.Join(t.TempDir(), "policy.yaml")
	err := os.WriteFile(policy, []byte("apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\nrules:\n- level: RequestResponse\n"), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	audit := &trail{}
	before := totals(t)
	s := open(t, shopOptions{workers: 16, audit: auditlog.Options{PolicyFile: policy, Writer: audit}})
	const n = 60
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() {
			name := fmt.Sprint("shop-", i)
			s.make(t, name, "m0")
			for j := range 4 {
				s.patch(t, name, "motto", fmt.Sprint("m", j))
			}
		})
	}
	group.Wait()
	s.idle(t)

	var recorded, audited []string
	for _, run := range s.console.recorder.Runs() {
		r := run.Copy()
		if slices.Max(r.Dropped[:]) > 0 {
			t.Fatalf("reconcile %d has %v that are not recorded", r.ID, r.Dropped)
		}
		for _, w := range r.Writes {
			recorded = append(recorded, fmt.Sprintln(w.Verb, strings.ToLower(w.Type.GVK.Kind)+"s", observe.NameText(w.Key), w.SubResource, w.Version, w.Err == ""))
		}
	}
	audit.mu.Lock()
	for _, e := range audit.events {
		switch {
		case e.User.Username != "operator" || e.ObjectRef == nil || e.ObjectRef.Resource == "events":
		case slices.Contains([]string{"create", "update", "patch", "delete"}, e.Verb):
			version := ""
			if ok := e.ResponseStatus.Code < 300; ok {
				var response struct {
					Metadata struct{ ResourceVersion string }
				}
				if err := json.Unmarshal(e.ResponseObject.Raw, &response); err != nil {
					t.Fatal(err)
				}
				version = response.Metadata.ResourceVersion
			}
			audited = append(audited, fmt.Sprintln(e.Verb, e.ObjectRef.Resource, e.ObjectRef.Namespace+"/"+e.ObjectRef.Name,
				e.ObjectRef.Subresource, version, e.ResponseStatus.Code < 300))
		}
	}
	audit.mu.Unlock()
	slices.Sort(recorded)
	slices.Sort(audited)
	if len(audited) < 4*n || !slices.Equal(recorded, audited) {
		t.Errorf("%d writes are recorded, and %d are in the audit log", len(recorded), len(audited))
		for _, line := range recorded {
			if !slices.Contains(audited, line) {
				t.Log("invented: ", line)
			}
		}
		for _, line := range audited {
			if !slices.Contains(recorded, line) {
				t.Log("missing: ", line)
			}
		}
	}
	after := totals(t)
	for _, c := range s.console.now().Controllers {
		for result, n := range c.Totals {
			if key := c.Name + " " + result; after[key]-before[key] != float64(n) {
				t.Errorf("%s: %d, and %v in the metrics", key, n, after[key]-before[key])
			}
		}
	}
	// The first cause of every chain is a write of a user: each write of a reconcile leads up to one.
	chain, ok := s.console.chain(s.lastWriting())
	if !ok || chain.Root.Origin != nil || chain.Root.Kind != "ConfigMap" || len(chain.Steps) < 2 {
		t.Errorf("the chain is %+v", chain)
	}
}

// lastWriting returns the last reconcile of the tagger that wrote.
func (s *shop) lastWriting() (id uint64) {
	for _, run := range s.console.recorder.Runs() {
		if r := run.Copy(); r.Controller == "tagger" && len(r.Writes) > 0 {
			id = max(id, r.ID)
		}
	}
	return id
}

// totals returns the reconciles in the metrics by controller and result.
func totals(t *testing.T) map[string]float64 {
	t.Helper()
	families, err := metrics.Registry.(prometheus.Gatherer).Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]float64{}
	for _, family := range families {
		if family.GetName() != "controller_runtime_reconcile_total" {
			continue
		}
		for _, m := range family.GetMetric() {
			all[label(m, "controller")+" "+label(m, "result")] = m.GetCounter().GetValue()
		}
	}
	return all
}

func label(m *dto.Metric, name string) string {
	for _, pair := range m.GetLabel() {
		if pair.GetName() == name {
			return pair.GetValue()
		}
	}
	return ""
}
