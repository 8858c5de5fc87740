package endpoints_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"flyball.dev/controlplane/controlplanetest"

	"github.com/google/go-cmp/cmp"

	"flyball.dev/apiserver/endpoints/endpointstest"
	"flyball.dev/controlplane"
)

const widgetsPath = "/apis/example.com/v1/namespaces/default/widgets"

// TestFastCreate creates equal objects on a server with the fast path and on one without. It compares the responses and the
// stored objects. The server with the fast path leaves a few of the requests to upstream's handler.
func TestFastCreate(t *testing.T) {
	fallbacks := map[string]string{
		"an owner twice": "owners",
		"an unknown field, which is only warned of": "document",
		"the same field twice":                      "document",
		"a custom resource without a kind":          "document",
		"a custom resource of another kind":         "managed-fields",
		"a custom resource with an unknown field":   "document",
		"another namespace":                         "document",
		"managed fields of its own":                 "managed-fields",
		"a pod with keys twice":                     "managed-fields",
		"no JSON":                                   "document",
	}
	for _, tc := range []struct{ name, path, body string }{
		{"nothing but a name", "/api/v1/namespaces/default/configmaps", `{"metadata":{"name":"x"}}`},
		{"data and labels", "/api/v1/namespaces/default/configmaps", `{"metadata":{"name":"x","labels":{"a":"b"},"annotations":{"c":"d"}},"data":{"k":"v"}}`},
		{"system fields of its own", "/api/v1/namespaces/default/configmaps", `{"metadata":{"name":"x","uid":"u","resourceVersion":"7","generation":9,"creationTimestamp":"2020-01-01T00:00:00Z"}}`},
		{"an owner twice", "/api/v1/namespaces/default/configmaps", `{"metadata":{"name":"x","ownerReferences":[
			{"apiVersion":"v1","kind":"Pod","name":"p","uid":"1"},{"apiVersion":"v1","kind":"Pod","name":"p","uid":"1"}]}}`},
		{"an unknown field, which is only warned of", "/api/v1/namespaces/default/configmaps", `{"metadata":{"name":"x"},"dato":{"k":"v"}}`},
		{"the same field twice", "/api/v1/namespaces/default/configmaps", `{"metadata":{"name":"x"},"data":{"a":"1"},"data":{"b":"2"}}`},
		{"a namespace", "/api/v1/namespaces", `{"metadata":{"name":"x"}}`},
		{"a secret of strings", "/api/v1/namespaces/default/secrets", `{"metadata":{"name":"x"},"stringData":{"k":"v"}}`},
		{"a pod with a status of its own", "/api/v1/namespaces/default/pods", `{"metadata":{"name":"x"},"spec":{"containers":[{"name":"c","image":"i","ports":[{"containerPort":80}],"env":[{"name":"A","value":"b"}],"resources":{"requests":{"cpu":"100m"}}}]},"status":{"phase":"Failed"}}`},
		{"a service", "/api/v1/namespaces/default/services", `{"metadata":{"name":"x"},"spec":{"selector":{"a":"b"},"ports":[{"port":80,"targetPort":"http"}]}}`},
		{"a deployment", "/apis/apps/v1/namespaces/default/deployments", `{"metadata":{"name":"x"},"spec":{"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}`},
		{"a role", "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles", `{"metadata":{"name":"x"},"rules":[{"apiGroups":[""],"resources":["pods"],"verbs":["get"]}]}`},
		{"a lease", "/apis/coordination.k8s.io/v1/namespaces/default/leases", `{"metadata":{"name":"x"},"spec":{"holderIdentity":"me","renewTime":"2026-01-02T03:04:05.678901Z"}}`},
		{"an event of the other group", "/apis/events.k8s.io/v1/namespaces/default/events", `{"metadata":{"name":"x"},"eventTime":"2026-01-02T03:04:05.678901Z","reportingController":"c","reportingInstance":"i","action":"a","reason":"r","type":"Normal","regarding":{"namespace":"default"}}`},
		{"an event", "/api/v1/namespaces/default/events", `{"metadata":{"name":"x"},"involvedObject":{"namespace":"default"},"reason":"r","message":"m","type":"Normal","count":1,"source":{"component":"c"},"firstTimestamp":"2026-01-02T03:04:05Z"}`},
		{"an autoscaler in v1", "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers", `{"metadata":{"name":"x"},"spec":{"maxReplicas":3,"scaleTargetRef":{"kind":"Deployment","name":"d"},"targetCPUUtilizationPercentage":50}}`},
		{"a custom resource", widgetsPath, `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"x","labels":{"a":"b"}},"spec":{"image":"i","ports":[{"name":"a","port":1}]}}`},
		{"a custom resource with a status of its own", widgetsPath, `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"x","generation":7},"spec":{"image":"i","replicas":0},"status":{"ready":1}}`},
		{"a custom resource of nothing but a name", widgetsPath, `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"x"}}`},
		{"a custom resource without a kind", widgetsPath, `{"metadata":{"name":"x"}}`},
		{"a custom resource of another kind", widgetsPath, `{"apiVersion":"example.com/v1","kind":"Gadget","metadata":{"name":"x"}}`},
		{"a custom resource without metadata", widgetsPath, `{"apiVersion":"example.com/v1","kind":"Widget"}`},
		{"a custom resource with an unknown field", widgetsPath, `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"x"},"spec":{"image":"i","size":1}}`},
		{"a custom resource that is invalid", widgetsPath, `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"x"},"spec":{"replicas":-1}}`},
		{"invalid", "/api/v1/namespaces/default/configmaps", `{"metadata":{"name":"X"}}`},
		{"another namespace", "/api/v1/namespaces/default/configmaps", `{"metadata":{"name":"x","namespace":"y"}}`},
		{"null for fields", "/api/v1/namespaces/default/configmaps", `{"metadata":{"name":"x","managedFields":null,"labels":null},"data":{"a":null,"b":""}}`},
		{"managed fields of its own", "/api/v1/namespaces/default/configmaps", `{"metadata":{"name":"x","managedFields":[{"manager":"me","operation":"Update","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{"f:data":{"f:a":{}}}}]},"data":{"a":"b"}}`},
		{"a pod with keys twice", "/api/v1/namespaces/default/pods", `{"metadata":{"name":"x"},"spec":{"containers":[{"name":"c","image":"i","command":[],"args":null,"ports":[{"containerPort":80},{"containerPort":80}],"env":[{"name":"A","value":"b"},{"name":"A","value":"c"}]}],"imagePullSecrets":[{"name":"s"},{"name":"s"}]}}`},
		{"a custom resource with null for fields", widgetsPath, `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"x","labels":null,"managedFields":null},"spec":{"image":"i","replicas":null,"ports":[null]},"status":null}`},
		{"a custom resource whose metadata is null", widgetsPath, `{"apiVersion":"example.com/v1","kind":"Widget","metadata":null}`},
		{"no JSON", "/api/v1/namespaces/default/configmaps", `{`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			try := func(agent string, withoutFastPath bool) (int, map[string]any) {
				plane := controlplanetest.Start(t, controlplane.Options{WithoutControllers: true, WithoutFastPath: withoutFastPath})
				cfg := plane.Config()
				cfg.UserAgent = agent
				send := controlplanetest.Sender(t, cfg)
				if tc.path == widgetsPath {
					if status, body := send(http.MethodPost, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "application/yaml", controlplanetest.Widgets); status != http.StatusCreated {
						t.Fatalf("the definition: %d %s", status, body)
					}
				}
				paths := endpointstest.Count(t, "", endpointstest.Writes...)
				status, body := send(http.MethodPost, tc.path, "application/json", tc.body)
				want := endpointstest.Fast
				if withoutFastPath {
					want = endpointstest.SwitchedOff
				} else if reason := fallbacks[tc.name]; reason != "" {
					want = endpointstest.Fallback(reason)
				}
				paths().Require(t, want, 1)
				if status == http.StatusCreated {
					_, stored := send(http.MethodGet, tc.path+"/x", "", "")
					if diff := cmp.Diff(normal(t, body), normal(t, stored)); diff != "" {
						t.Errorf("answered (-) and stored (+) differ:\n%s", diff)
					}
				}
				return status, normal(t, body)
			}
			for _, agent := range []string{"", "tester/1.0"} {
				status, body := try(agent, false)
				wantStatus, want := try(agent, true)
				if status != wantStatus {
					t.Errorf("status %d, upstream %d", status, wantStatus)
				}
				if diff := cmp.Diff(want, body); diff != "" {
					t.Errorf("the response (-upstream +ours):\n%s", diff)
				}
			}
		})
	}
}

// TestCreateAgain creates an object with a name that is taken, or may be, on a server with the fast path and on one without, and
// compares the responses.
func TestCreateAgain(t *testing.T) {
	const path = "/api/v1/namespaces/default/configmaps"
	for _, tc := range []struct {
		name, first, again string
		deleted            bool
	}{
		{"an object", `{"metadata":{"name":"x"}}`, `{"metadata":{"name":"x"},"data":{"a":"b"}}`, false},
		{"an object that is being deleted", `{"metadata":{"name":"x","finalizers":["example.com/wait"]}}`, `{"metadata":{"name":"x"}}`, true},
		{"an object that was deleted", `{"metadata":{"name":"x"}}`, `{"metadata":{"name":"x"}}`, true},
		{"a name with the prefix of another", `{"metadata":{"name":"x"}}`, `{"metadata":{"name":"x","generateName":"y-"}}`, false},
		{"the prefix of a name", `{"metadata":{"name":"x"}}`, `{"metadata":{"generateName":"x-"}}`, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			try := func(took endpointstest.Path) (int, map[string]any) {
				plane := controlplanetest.Start(t, controlplane.Options{WithoutControllers: true, WithoutFastPath: bothPaths[took]})
				send := controlplanetest.Sender(t, plane.Config())
				if status, body := send(http.MethodPost, path, "application/json", tc.first); status != http.StatusCreated {
					t.Fatalf("%d %s", status, body)
				}
				if tc.deleted {
					if status, body := send(http.MethodDelete, path+"/x", "", ""); status != http.StatusOK {
						t.Fatalf("%d %s", status, body)
					}
				}
				paths := endpointstest.Count(t, "", endpointstest.Writes...)
				status, body := send(http.MethodPost, path, "application/json", tc.again)
				paths().Require(t, took, 1)
				obj := normal(t, body)
				if metadata, _ := obj["metadata"].(map[string]any); metadata["generateName"] != nil {
					name, _ := metadata["name"].(string)
					metadata["name"], _, _ = strings.Cut(name, "-") // the rest is random
				}
				return status, obj
			}
			status, got := try(endpointstest.Fast)
			wantStatus, want := try(endpointstest.SwitchedOff)
			if diff := cmp.Diff(want, got); status != wantStatus || diff != "" {
				t.Errorf("status %d, upstream %d; the response (-upstream +ours):\n%s", status, wantStatus, diff)
			}
		})
	}
}

// normal returns an object without the fields that are different in each creation.
func normal(t *testing.T, body []byte) map[string]any {
	t.Helper()
	var obj map[string]any
	if err := json.Unmarshal(body, &obj); err != nil {
		t.Fatalf("%v in %q", err, body)
	}
	metadata, _ := obj["metadata"].(map[string]any)
	for _, server := range []string{"uid", "creationTimestamp", "resourceVersion"} {
		if _, ok := metadata[server]; ok {
			metadata[server] = strings.ToUpper(server)
		}
	}
	managed, _ := metadata["managedFields"].([]any)
	for _, entry := range managed {
		entry.(map[string]any)["time"] = "TIME"
	}
	return obj
}
