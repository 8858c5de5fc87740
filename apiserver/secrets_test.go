package apiserver_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"

	"flyball.dev/controlplane/controlplanetest"

	"github.com/go-logr/logr/funcr"
	"k8s.io/klog/v2"

	"flyball.dev/controlplane"
)

// TestSecretsAreNotLogged sends invalid Secrets. The errors may quote them, but the log must not.
func TestSecretsAreNotLogged(t *testing.T) {
	var mu sync.Mutex
	var logged strings.Builder
	klog.SetLogger(funcr.New(func(_, args string) {
		mu.Lock()
		defer mu.Unlock()
		logged.WriteString(args + "\n")
	}, funcr.Options{}))
	t.Cleanup(klog.ClearLogger) // after the control plane, which logs until it has stopped

	plane := controlplanetest.Start(t, controlplane.Options{})
	send := controlplanetest.Sender(t, plane.Config())
	const secrets = "/api/v1/namespaces/default/secrets"
	if status, body := send(http.MethodPost, secrets, "application/json", `{"metadata":{"name":"door"},"stringData":{"code":"hunter2"}}`); status != http.StatusCreated {
		t.Fatalf("answered %d %s", status, body)
	}
	refused := 0
	for _, fields := range []string{
		`"data": "hunter2"`,
		`"data": {"code": "hunter2!"}`,
		`"data": {"code": {"hunter2": "aHVudGVyMg=="}}`,
		`"data": ["hunter2"]`,
		`"stringData": "hunter2"`,
		`"stringData": ["hunter2"]`,
		`"stringData": {"code": ["hunter2"]}`,
		`"stringData": {"not a key": "hunter2"}`,
		`"hunter2": "hunter2"`,
		`"type": {"hunter2": 1}`,
		`"type": "kubernetes.io/dockerconfigjson", "stringData": {".dockerconfigjson": "{hunter2"}`,
		`"immutable": "hunter2"`,
		`"stringData": {"code": "hunter2"`,
	} {
		object := `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"door"},` + fields + `}`
		for _, request := range []struct{ method, path, kind, body string }{
			{http.MethodPost, secrets + "?fieldValidation=Strict", "application/json", strings.Replace(object, "door", "other", 1)},
			{http.MethodPut, secrets + "/door?fieldValidation=Strict", "application/json", object},
			{http.MethodPatch, secrets + "/door", "application/merge-patch+json", "{" + fields + "}"},
			{http.MethodPatch, secrets + "/door", "application/strategic-merge-patch+json", "{" + fields + "}"},
			{http.MethodPatch, secrets + "/door", "application/json-patch+json", `[{"op":"test","path":"/data","value":{` + fields + `}}]`},
			{http.MethodPatch, secrets + "/door?fieldManager=test&force=true", "application/apply-patch+yaml", object},
		} {
			if status, _ := send(request.method, request.path, request.kind, request.body); status >= 400 {
				refused++
			}
		}
	}
	if refused < 70 { // of 78: a patch may have unknown fields
		t.Errorf("only %d were refused", refused)
	}
	mu.Lock()
	defer mu.Unlock()
	for _, secret := range []string{"hunter2", "aHVudGVyMg"} {
		if strings.Contains(logged.String(), secret) {
			t.Errorf("the log has %q:\n%s", secret, logged.String())
		}
	}
}
