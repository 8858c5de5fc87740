package endpoints

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	auditapi "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"

	"flyball.dev/apiserver/builtin"
	"flyball.dev/apiserver/kinds"
	"flyball.dev/apiserver/resource"
	"flyball.dev/apiserver/schema"
	"flyball.dev/apiserver/store"
	"flyball.dev/storage"
	"flyball.dev/storage/memory"
)

// allow allows everything.
type allow struct{}

func (allow) Authorize(context.Context, authorizer.Attributes) (authorizer.Decision, string, error) {
	return authorizer.DecisionAllow, "", nil
}

// podsOf returns the pods of a server.
func podsOf(t *testing.T) *resource.Resource {
	t.Helper()
	backend := memory.New(memory.Options{})
	t.Cleanup(func() { backend.Close() })
	return podsIn(t, backend)
}

// podsIn returns the pods of a server with that storage.
func podsIn(t *testing.T, backend storage.Store) *resource.Resource {
	t.Helper()
	resources, err := kinds.Resources(kinds.Options{
		Scheme: builtin.Scheme(), Codecs: builtin.Codecs(), Storage: store.RESTOptions(store.Options{Storage: backend, Codec: builtin.StorageCodec}),
		TypeConverter: schema.TypeConverter(builtin.Scheme()), Authorizer: allow{}, MaxRequestBodyBytes: 1 << 20,
	}, builtin.All(builtin.Options{}))
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range resources {
		if r.Name == "pods" && r.GroupVersion.Version == "v1" && r.GroupVersion.Group == "" {
			return r
		}
	}
	t.Fatal("no pods")
	return nil
}

// TestPathOfWrites checks which requests the fast path serves, and which go to the handler of k8s.io/apiserver.
func TestPathOfWrites(t *testing.T) {
	pods := podsOf(t)
	const manifest = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"x","labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}`
	const labels = `{"metadata":{"labels":{"c":"d"}}}`
	const config = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"x","labels":{"e":"f"}}}`
	for _, test := range []struct {
		name, method, subresource, query, contentType, body string
		fast                                                bool
	}{
		{"create", http.MethodPost, "", "", "application/json", manifest, true},
		{"update", http.MethodPut, "", "", "application/json", manifest, true},
		{"update by a manager", http.MethodPut, "", "fieldManager=me&fieldValidation=Strict", "application/json", manifest, true},
		{"status", http.MethodPut, "status", "", "application/json", manifest, true},
		{"binding", http.MethodPost, "binding", "", "application/json",
			`{"apiVersion":"v1","kind":"Binding","metadata":{"name":"x"},"target":{"kind":"Node","name":"n"}}`, true},
		{"merge patch", http.MethodPatch, "", "", "application/merge-patch+json", labels, true},
		{"merge patch of the status", http.MethodPatch, "status", "", "application/merge-patch+json", `{"status":{"phase":"Running"}}`, true},
		{"strategic merge patch", http.MethodPatch, "", "", "application/strategic-merge-patch+json", labels, true},
		{"strategic merge patch of a list", http.MethodPatch, "status", "", "application/strategic-merge-patch+json",
			`{"status":{"conditions":[{"type":"Ready","status":"True"}]}}`, true},
		{"apply", http.MethodPatch, "", "fieldManager=me&force=true", "application/apply-patch+yaml", config, true},
		{"apply again", http.MethodPatch, "", "fieldManager=me", "application/apply-patch+yaml", config, true},
		{"apply of a conflicting value", http.MethodPatch, "", "fieldManager=you", "application/apply-patch+yaml",
			strings.Replace(config, `"f"`, `"g"`, 1), true},
		{"apply without a label", http.MethodPatch, "", "fieldManager=me", "application/apply-patch+yaml",
			`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"x"}}`, true},
		{"merge patch with a timeout", http.MethodPatch, "", "timeout=30s", "application/merge-patch+json", labels, true},
		{"apply in YAML", http.MethodPatch, "", "fieldManager=me", "application/apply-patch+yaml", "apiVersion: v1\nkind: Pod\n", false},
		{"JSON patch", http.MethodPatch, "", "", "application/json-patch+json", `[]`, false},
		{"dry run", http.MethodPut, "", "dryRun=All", "application/json", manifest, false},
		{"no validation of fields", http.MethodPut, "", "fieldValidation=Ignore", "application/json", manifest, false},
		{"an unknown field", http.MethodPatch, "", "", "application/merge-patch+json", `{"spek":1}`, false},
		{"another name", http.MethodPatch, "", "", "application/merge-patch+json", `{"metadata":{"name":"y"}}`, false},
		{"managed fields", http.MethodPatch, "", "", "application/merge-patch+json", `{"metadata":{"managedFields":[]}}`, false},
		{"nothing", http.MethodPut, "", "", "application/json", "", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := pods
			if test.subresource != "" {
				r = pods.Subresource(test.subresource)
			}
			w := writer{resource: r}
			left := false
			upstream := func(http.ResponseWriter, *http.Request) { left = true }
			serve := w.serve(http.StatusOK, func(ctx context.Context, one *write) (runtime.Object, error) {
				switch test.method {
				case http.MethodPost:
					if named, ok := r.Storage.(rest.NamedCreater); ok {
						return one.create(ctx, func(ctx context.Context, obj runtime.Object, v rest.ValidateObjectFunc,
							o *metav1.CreateOptions) (runtime.Object, error) {
							return named.Create(ctx, one.name, obj, v, o)
						})
					}
					return one.create(ctx, r.Storage.(rest.Creater).Create)
				case http.MethodPut:
					return one.update(ctx, r.Storage.(rest.Updater))
				default:
					return one.patch(ctx, r.Storage.(rest.Updater))
				}
			}, upstream)
			req := httptest.NewRequestWithContext(t.Context(), test.method, "/api/v1/namespaces/default/pods/x?"+test.query, strings.NewReader(test.body))
			req.Header.Set("Content-Type", test.contentType)
			if err := readBody(req, 0); err != nil {
				t.Fatal(err)
			}
			audited := audit.WithAuditContext(req.Context())
			if err := audit.AuditContextFrom(audited).Init(audit.RequestAuditConfig{Level: auditapi.LevelNone}, nil); err != nil {
				t.Fatal(err)
			}
			ctx := request.WithRequestInfo(audited, &request.RequestInfo{IsResourceRequest: true,
				APIVersion: "v1", Resource: "pods", Subresource: test.subresource, Namespace: "default", Name: "x"})
			rec := httptest.NewRecorder()
			serve(rec, req.WithContext(request.WithUser(ctx, &user.DefaultInfo{Name: "me"})))
			if left == test.fast {
				t.Errorf("left to upstream: %v: %s", left, rec.Body)
			}
			status := http.StatusOK
			if test.name == "apply of a conflicting value" {
				status = http.StatusConflict
			}
			if test.fast && rec.Code != status {
				t.Errorf("%d %s", rec.Code, rec.Body)
			}
		})
	}
}
