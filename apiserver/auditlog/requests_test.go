package auditlog_test

import (
	"bufio"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"flyball.dev/controlplane/controlplanetest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/rest"

	"flyball.dev/apiserver/auditlog"
	"flyball.dev/controlplane"
)

const auditPolicy = `
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: RequestResponse
  resources: [{group: "", resources: [configmaps]}]
- level: Metadata
  resources: [{group: "", resources: [secrets, pods, namespaces]}]
- level: None
`

// TestAuditLog sends requests of several kinds, and compares the events in the log with them.
func TestAuditLog(t *testing.T) {
	dir := t.TempDir()
	policy, path := filepath.Join(dir, "policy.yaml"), filepath.Join(dir, "audit.log")
	if err := os.WriteFile(policy, []byte(auditPolicy), 0o600); err != nil {
		t.Fatal(err)
	}
	plane := controlplanetest.Start(t, controlplane.Options{WithoutControllers: true,
		Audit:  auditlog.Options{PolicyFile: policy, LogPath: path},
		Tokens: map[string]*user.DefaultInfo{"secret": {Name: "ann"}}})
	send := func(token, method, path, body string, header ...string) *http.Response {
		t.Helper()
		cfg := plane.Config()
		cfg.BearerToken = token
		client, err := rest.HTTPClientFor(cfg)
		if err != nil {
			t.Fatal(err)
		}
		r, err := http.NewRequestWithContext(t.Context(), method, cfg.Host+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		for i := 0; i < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		resp, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		return resp
	}
	const core = "/api/v1/namespaces/default/"
	if id := send("", "POST", core+"configmaps", `{"metadata":{"name":"a"},"data":{"k":"v"}}`, "Audit-ID", "mine").Header.Get("Audit-ID"); id != "mine" {
		t.Errorf("the client's audit ID is %q in the response", id)
	}
	if id := send("", "POST", core+"secrets", `{"metadata":{"name":"b"},"stringData":{"k":"hunter2"}}`).Header.Get("Audit-ID"); len(id) != 36 {
		t.Errorf("the audit ID is %q", id)
	}
	send("secret", "GET", core+"pods", "")
	send("wrong", "GET", core+"pods", "")
	send("", "GET", core+"services", "")
	send("", "PATCH", "/api/v1/namespaces/default?fieldManager=x", `{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"restricted"}}}`,
		"Content-Type", "application/merge-patch+json")
	send("", "POST", core+"pods", `{"metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i"}]}}`)
	send("", "POST", core+"configmaps", `{"metadata":{"name":"UPPER"}}`, "Impersonate-User", "system:admin", "Impersonate-Group", "system:masters")

	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var events []auditv1.Event
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if strings.Contains(lines.Text(), "hunter2") {
			t.Errorf("a secret was logged: %s", lines.Text())
		}
		var e auditv1.Event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			t.Fatal(err)
		}
		events = append(events, e)
	}
	for i, want := range []struct {
		level               auditv1.Level
		verb, resource, who string
		code                int32
		objects             bool
		decision            string
		annotation          string
	}{
		{auditv1.LevelRequestResponse, "create", "configmaps", "flyball-admin", 201, true, "allow", ""},
		{auditv1.LevelMetadata, "create", "secrets", "flyball-admin", 201, false, "allow", ""},
		{auditv1.LevelMetadata, "list", "pods", "ann", 403, false, "forbid", ""},
		{auditv1.LevelMetadata, "list", "pods", "", 401, false, "", ""},
		{auditv1.LevelMetadata, "patch", "namespaces", "flyball-admin", 200, false, "allow", ""},
		{auditv1.LevelMetadata, "create", "pods", "flyball-admin", 403, false, "allow", "pod-security.kubernetes.io/enforce-policy"},
		{auditv1.LevelRequestResponse, "create", "configmaps", "flyball-admin", 422, true, "allow", ""},
	} {
		if i >= len(events) {
			t.Fatalf("there are only %d events", len(events))
		}
		e := events[i]
		if e.Kind != "Event" || e.APIVersion != "audit.k8s.io/v1" || e.Level != want.level || e.Verb != want.verb || e.ObjectRef.Resource != want.resource ||
			e.User.Username != want.who || e.ResponseStatus.Code != want.code || (e.RequestObject != nil) != want.objects || (e.ResponseObject != nil) != want.objects {
			t.Errorf("event %d is %+v, want %+v", i, e, want)
		}
		if got := e.Annotations["authorization.k8s.io/decision"]; got != want.decision {
			t.Errorf("event %d: decision %q", i, got)
		}
		if want.annotation != "" && e.Annotations[want.annotation] == "" {
			t.Errorf("event %d has the annotations %v", i, e.Annotations)
		}
	}
	if len(events) != 8-1 {
		t.Errorf("%d events, want 7", len(events))
	}
	if events[0].AuditID != "mine" || events[3].ResponseStatus.Status != metav1.StatusFailure {
		t.Errorf("the events are %+v, %+v", events[0], events[3])
	}
	if who := events[6].ImpersonatedUser; who == nil || who.Username != "system:admin" {
		t.Errorf("impersonated %+v", who)
	}
}
