package endpoints_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"flyball.dev/controlplane/controlplanetest"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"flyball.dev/apiserver/auditlog"
	"flyball.dev/apiserver/endpoints/endpointstest"
	"flyball.dev/apiserver/store"
	"flyball.dev/controlplane"
	"flyball.dev/internal/testlevel"
	"flyball.dev/storage"
	"flyball.dev/storage/memory"
)

// bothPaths are the paths of the requests that the fast path supports, with the option that makes them take the path.
var bothPaths = map[endpointstest.Path]bool{endpointstest.Fast: false, endpointstest.SwitchedOff: true}

// side is one of two control planes that get the same requests. One of them has no fast path.
type side struct {
	sent    int // writes
	audit   string
	host    string
	client  *http.Client
	backend storage.Store
	// versions are the names of the resource versions that were seen, in their order. real are the
	// resource versions by their names, and the times of the last managed fields by theirs.
	versions, real map[string]string
}

// newSide returns a control plane. With an audit policy, it has an audit log.
func newSide(t *testing.T, withoutFastPath bool, policy string) *side {
	t.Helper()
	backend := memory.New(memory.Options{Retention: time.Hour}) // for the events of all writes, however slow the test is
	o := controlplane.Options{WithoutControllers: true, WithoutFastPath: withoutFastPath, Storage: backend}
	if policy != "" {
		file := filepath.Join(t.TempDir(), "policy.yaml")
		if err := os.WriteFile(file, []byte(policy), 0o600); err != nil {
			t.Fatal(err)
		}
		o.Audit = auditlog.Options{PolicyFile: file, LogPath: filepath.Join(t.TempDir(), "audit.log"), Format: "json"}
	}
	cfg := controlplanetest.Start(t, o).Config()
	client, err := rest.HTTPClientFor(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return &side{audit: o.Audit.LogPath, host: cfg.Host, client: client, backend: backend, versions: map[string]string{}, real: map[string]string{}}
}

// answer is a response.
type answer struct {
	Status   int
	Warnings []string
	Body     any
}

func (s *side) send(t *testing.T, r write) answer {
	t.Helper()
	if r.method == http.MethodPost || r.method == http.MethodPut || r.method == http.MethodPatch {
		s.sent++
	}
	body := serverNames.ReplaceAllStringFunc(r.body, func(name string) string { return s.real[name] })
	req, err := http.NewRequestWithContext(t.Context(), r.method, s.host+r.path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", r.contentType)
	req.Header.Set("User-Agent", r.agent)
	resp, err := s.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	a := answer{Status: resp.StatusCode, Warnings: resp.Header["Warning"]}
	if err := json.NewDecoder(resp.Body).Decode(&a.Body); err != nil {
		t.Fatalf("%s %s: %v", r.method, r.path, err)
	}
	s.stable(a.Body)
	return a
}

// serverNames match the text in requests that differs between control planes; versionNames match resource versions.
var (
	serverNames  = regexp.MustCompile(`(VERSION|TIME)-[0-9]+`)
	versionNames = regexp.MustCompile(`VERSION-[0-9]+`)
)

// stable replaces the values that differ between control planes.
func (s *side) stable(body any) {
	obj, _ := body.(map[string]any)
	if obj["kind"] == "Status" {
		obj["message"] = "stable: " + stableText(obj["message"])
		details, _ := obj["details"].(map[string]any)
		causes, _ := details["causes"].([]any)
		for _, cause := range causes {
			c := cause.(map[string]any)
			c["message"] = stableText(c["message"])
		}
		if len(causes) > 1 { // conflicts and violations of a schema are in no order
			slices.SortFunc(causes, func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
			obj["message"] = "its causes"
		}
		delete(details, "uid")
	}
	metadata, _ := obj["metadata"].(map[string]any)
	for _, field := range []string{"uid", "creationTimestamp", "deletionTimestamp"} {
		if _, ok := metadata[field]; ok {
			metadata[field] = "SERVER"
		}
	}
	if obj["kind"] == "CustomResourceDefinition" {
		status, _ := obj["status"].(map[string]any)
		conditions, _ := status["conditions"].([]any)
		for _, condition := range conditions {
			condition.(map[string]any)["lastTransitionTime"] = "SERVER"
		}
	}
	if version, ok := metadata["resourceVersion"].(string); ok {
		if s.versions[version] == "" {
			name := fmt.Sprintf("VERSION-%d", len(s.versions))
			s.versions[version], s.real[name] = name, version
		}
		metadata["resourceVersion"] = s.versions[version]
	}
	managed, _ := metadata["managedFields"].([]any)
	slices.SortFunc(managed, func(a, b any) int { return strings.Compare(managerOf(a), managerOf(b)) }) // not by time
	for i, entry := range managed {
		name := fmt.Sprintf("TIME-%d", i)
		s.real[name], _ = entry.(map[string]any)["time"].(string)
		entry.(map[string]any)["time"] = name
	}
}

// managerOf returns an entry of managed fields without its time.
func managerOf(entry any) string {
	entry = maps.Clone(entry.(map[string]any))
	delete(entry.(map[string]any), "time")
	return fmt.Sprint(entry)
}

var (
	serverValues = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f-]{27}|20[0-9T:-]{17}Z|resourceVersion\\*":\\*"[0-9]+`)
	quoted       = regexp.MustCompile(`(?s)Invalid value: "\{.*": `) // an object, with entries ordered by time
	unordered    = regexp.MustCompile(`(?s)(failed to create typed patch object [^:]*).*`)
)

// stableText replaces the parts of a message that differ between control planes, and the errors of
// structured-merge-diff, which have no order.
func stableText(text any) string {
	message, _ := text.(string)
	message = quoted.ReplaceAllString(message, "Invalid value: OBJECT: ")
	return unordered.ReplaceAllString(serverValues.ReplaceAllString(message, "SERVER"), "$1")
}

// write is a request.
type write struct {
	method, path, contentType, agent, body string
}

const (
	mergePatch     = "application/merge-patch+json"
	strategicPatch = "application/strategic-merge-patch+json"
	applyPatch     = "application/apply-patch+yaml"
	jsonPatch      = "application/json-patch+json"
)

// written kinds with an object of each, and values for the fields of patches.
var writtenKinds = []struct {
	path, manifest string
	custom         bool
}{
	{path: "/api/v1/namespaces/default/configmaps", manifest: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x","labels":{"a":"b"}},"data":{"k":"v"},"binaryData":{"b":"AAEC"}}`},
	{path: "/api/v1/namespaces/default/secrets", manifest: `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"x"},"stringData":{"k":"v"}}`},
	{path: "/api/v1/namespaces/default/pods", manifest: `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"x","finalizers":["a/b"]},"spec":{"nodeSelector":{"a":"b"},"containers":[{"name":"c","image":"i","ports":[{"containerPort":80}],"env":[{"name":"A","value":"b"}],"resources":{"requests":{"cpu":"100m"}}}]}}`},
	{path: "/api/v1/namespaces/default/services", manifest: `{"apiVersion":"v1","kind":"Service","metadata":{"name":"x"},"spec":{"selector":{"a":"b"},"clusterIP":"10.96.7.7","ports":[{"port":80,"targetPort":"http"}]}}`},
	{path: "/api/v1/namespaces", manifest: `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"x"}}`},
	{path: "/api/v1/nodes", manifest: `{"apiVersion":"v1","kind":"Node","metadata":{"name":"x","labels":{"a":"b"}},"spec":{"taints":[{"key":"a","effect":"NoSchedule"}]}}`},
	{path: "/apis/apps/v1/namespaces/default/deployments", manifest: `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"x"},"spec":{"replicas":2,"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}`},
	{path: "/apis/coordination.k8s.io/v1/namespaces/default/leases", manifest: `{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":"x"},"spec":{"holderIdentity":"me","renewTime":"2026-01-02T03:04:05.678901Z"}}`},
	{path: "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles", manifest: `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"Role","metadata":{"name":"x"},"rules":[{"apiGroups":[""],"resources":["pods"],"verbs":["get"]}]}`},
	{path: "/apis/policy/v1/namespaces/default/poddisruptionbudgets", manifest: `{"apiVersion":"policy/v1","kind":"PodDisruptionBudget","metadata":{"name":"x"},"spec":{"minAvailable":1,"selector":{"matchLabels":{"a":"b"}}}}`},
	{path: "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers", manifest: `{"apiVersion":"autoscaling/v2","kind":"HorizontalPodAutoscaler","metadata":{"name":"x"},"spec":{"maxReplicas":3,"scaleTargetRef":{"kind":"Deployment","name":"d","apiVersion":"apps/v1"}}}`},
	{path: "/apis/batch/v1/namespaces/default/cronjobs", manifest: `{"apiVersion":"batch/v1","kind":"CronJob","metadata":{"name":"x"},"spec":{"schedule":"* * * * *","jobTemplate":{"spec":{"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"c","image":"i"}]}}}}}}`},
	{path: widgetsPath, custom: true, manifest: `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"x","labels":{"a":"b"}},"spec":{"image":"i","ports":[{"name":"a","port":1}]}}`},
	{path: "/apis/example.com/v1/gadgets", custom: true, manifest: `{"apiVersion":"example.com/v1","kind":"Gadget","metadata":{"name":"x","labels":{"a":"b"},"finalizers":["a/b"]},"spec":{"image":"i","ports":[{"name":"a","port":1},{"name":"c"}],"selector":{"a":{"b":[1.5,null]}}},"status":{"phase":"New","conditions":[{"type":"Ready","status":"False"}]}}`},
}

// gadgets is a definition without a status subresource. Its schema uses many features of schemas.
const gadgets = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gadgets.example.com}
spec:
  group: example.com
  scope: Cluster
  names: {plural: gadgets, singular: gadget, kind: Gadget, listKind: GadgetList}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas}}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          data: {type: object, x-kubernetes-map-type: atomic, additionalProperties: {type: string}}
          spec:
            type: object
            properties:
              image: {type: string, nullable: true, default: none}
              replicas: {type: integer, minimum: 0, default: 1}
              ports:
                type: array
                x-kubernetes-list-type: map
                x-kubernetes-list-map-keys: [name]
                items: {type: object, required: [name], properties: {name: {type: string, default: x}, port: {type: integer, default: 80}}}
              selector: {type: object, x-kubernetes-preserve-unknown-fields: true}
              strategy: {type: object, default: {type: Rolling}, properties: {type: {type: string}, rollingUpdate: {type: object, additionalProperties: {x-kubernetes-int-or-string: true}}}}
              minAvailable: {x-kubernetes-int-or-string: true}
          status:
            type: object
            properties:
              phase: {type: string, enum: [New, Running]}
              replicas: {type: integer}
              capacity: {type: object, additionalProperties: {type: string}}
              conditions:
                type: array
                x-kubernetes-list-type: map
                x-kubernetes-list-map-keys: [type]
                items: {type: object, required: [type], properties: {type: {type: string}, status: {type: string}, lastTransitionTime: {type: string, format: date-time}}}
`

// patchValues are field values for random patches. Some are invalid, and many kinds lack the fields.
var patchValues = map[string][]string{
	"metadata.labels":                          {`{"a":"c"}`, `{"n":"m","a":null}`, `null`, `{}`, `{"a":1}`, `{"é":"<"}`},
	"metadata.annotations":                     {`{"a":"c"}`, `{"n":null}`, `null`},
	"metadata.finalizers":                      {`["a/b","c/d"]`, `[]`, `null`, `["bad"]`},
	"metadata.ownerReferences":                 {`[{"apiVersion":"v1","kind":"Pod","name":"p","uid":"1"}]`, `[{"apiVersion":"v1","kind":"Pod","name":"p","uid":"1"},{"apiVersion":"v1","kind":"Pod","name":"p","uid":"1"}]`, `null`},
	"metadata.resourceVersion":                 {`"1"`, `null`},
	"metadata.name":                            {`"y"`},
	"metadata.uid":                             {`"wrong"`},
	"metadata.generation":                      {`7`},
	"metadata.unknown":                         {`1`},
	"metadata.managedFields":                   {`[]`, `[{}]`},
	"data":                                     {`{"k":"w"}`, `{"k":null,"l":"x"}`, `null`, `{"l":1}`},
	"immutable":                                {`true`},
	"spec.replicas":                            {`3`, `null`, `"3"`, `3.0`, `-1`, `99999999999`},
	"spec.image":                               {`"j"`, `""`, `null`},
	"spec.ports":                               {`[{"name":"b","port":2}]`, `[{"port":81}]`, `[null]`, `[{"port":81,"name":"x","unknown":1}]`, `[{"name":"b","port":3},{"name":"b","port":4}]`},
	"spec.selector":                            {`{"a":"c"}`, `{"n":"m"}`, `{"matchLabels":{"n":"m"}}`, `{"matchLabels":{"a":"c"}}`, `{"matchExpressions":[{"key":"a","operator":"Exists"}]}`},
	"spec.taints":                              {`[{"key":"b","effect":"NoExecute"}]`, `null`},
	"spec.nodeName":                            {`"n"`},
	"spec.activeDeadlineSeconds":               {`30`},
	"spec.containers":                          {`[{"name":"c","image":"j"}]`, `[{"name":"d","image":"j"}]`},
	"spec.template.spec.containers":            {`[{"name":"c","image":"j","env":[{"name":"A","value":"1"}]}]`, `[{"name":"d","image":"k"}]`},
	"spec.template.spec.securityContext":       {`{"runAsUser":1}`, `{}`, `null`},
	"spec.jobTemplate.spec.backoffLimit":       {`3`},
	"spec.schedule":                            {`"1 * * * *"`, `"bad"`},
	"spec.strategy":                            {`{"type":"Recreate","rollingUpdate":null}`, `{"rollingUpdate":{"maxSurge":"30%"}}`, `{"rollingUpdate":{"maxSurge":2}}`},
	"spec.minAvailable":                        {`"50%"`, `2`, `null`},
	"spec.maxReplicas":                         {`7`},
	"spec.metrics":                             {`[{"type":"Resource","resource":{"name":"cpu","target":{"type":"Utilization","averageUtilization":50}}}]`},
	"spec.holderIdentity":                      {`"you"`, `null`},
	"spec.renewTime":                           {`"2026-01-02T03:04:06.000001Z"`, `"bad"`},
	"rules":                                    {`[{"apiGroups":["apps"],"resources":["*"],"verbs":["*"]}]`, `null`},
	"status.phase":                             {`"Running"`, `"Terminating"`},
	"status.ready":                             {`5`, `"x"`},
	"status.conditions":                        {`[{"type":"Ready","status":"True","lastTransitionTime":"2026-01-02T03:04:05Z"}]`, `[{"type":"Other","status":"False"},{"type":"Ready","status":"False"}]`, `null`},
	"status.capacity":                          {`{"cpu":"4","memory":"1Gi"}`, `{"cpu":"5000m","memory":null}`},
	"status.podIP":                             {`"10.0.0.1"`},
	"status.containerStatuses":                 {`[{"name":"c","image":"i","imageID":"","ready":true,"restartCount":1,"state":{"running":{"startedAt":"2026-01-02T03:04:05Z"}}}]`},
	"status.replicas":                          {`2`, `-2`},
	"status.loadBalancer":                      {`{"ingress":[{"ip":"1.2.3.4"}]}`},
	"unknown":                                  {`{"a":1}`},
	"apiVersion":                               {`"v1"`},
	"$patch":                                   {`"replace"`},
	"spec.$setElementOrder/containers":         {`[{"name":"c"}]`},
	"spec.template.metadata.creationTimestamp": {`null`, `"2026-01-02T03:04:05Z"`},
}

// change is a field and the JSON of a value for it.
type change struct{ field, value string }

// allChanges returns all of [patchValues].
func allChanges() (all []change) {
	for _, field := range slices.Sorted(maps.Keys(patchValues)) {
		for _, value := range patchValues[field] {
			all = append(all, change{field, value})
		}
	}
	return all
}

// patchOf returns a patch with changes.
func patchOf(t *testing.T, changes ...change) string {
	t.Helper()
	patch := map[string]any{}
	for _, c := range changes {
		var value any
		if err := json.Unmarshal([]byte(c.value), &value); err != nil {
			t.Fatal(err)
		}
		_ = unstructured.SetNestedField(patch, value, strings.Split(c.field, ".")...)
	}
	body, err := json.Marshal(patch)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// validChanges returns the changes that the control plane accepts for a path, one at a time.
func (s *side) validChanges(t *testing.T, path string) (valid []change) {
	t.Helper()
	for _, c := range allChanges() {
		one := write{http.MethodPatch, path + "?dryRun=All&fieldValidation=Strict", mergePatch, "setup", patchOf(t, c)}
		if s.send(t, one).Status == http.StatusOK {
			valid = append(valid, c)
		}
	}
	return valid
}

// randomPatch returns a patch of some fields. Most are of the valid ones.
func randomPatch(t *testing.T, random *rand.Rand, valid []change) string {
	t.Helper()
	if random.Intn(4) == 0 {
		valid = allChanges()
	}
	var changes []change
	for range 1 + random.Intn(3) {
		changes = append(changes, valid[random.Intn(len(valid))])
	}
	return patchOf(t, changes...)
}

// writesPolicy logs writes with all that is known of them.
const writesPolicy = `
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- {level: RequestResponse, verbs: [create, update, patch]}
- {level: None}
`

// TestFastPath sends the same writes to two control planes, one of them without a fast path. It compares the responses,
// the stored objects, their events, and the audit logs.
func TestFastPath(t *testing.T) {
	for _, test := range []struct {
		name, policy string
		writes       int // of each object
	}{{"plain", "", testlevel.Rounds(30, 150)}, {"audited", writesPolicy, 40}} {
		t.Run(test.name, func(t *testing.T) {
			sides := []*side{newSide(t, false, test.policy), newSide(t, true, test.policy)}
			paths := endpointstest.Count(t, "", endpointstest.Writes...)
			both := func(t *testing.T, r write) answer {
				t.Helper()
				mine, theirs := sides[0].send(t, r), sides[1].send(t, r)
				if diff := cmp.Diff(theirs, mine); diff != "" {
					t.Fatalf("%s %s by %s: %s (-upstream +ours):\n%s", r.method, r.path, r.agent, r.body, diff)
				}
				return mine
			}
			both(t, write{http.MethodPost, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "application/yaml", "setup", controlplanetest.Widgets})
			both(t, write{http.MethodPost, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "application/yaml", "setup", gadgets})
			for _, kind := range writtenKinds {
				ok := t.Run(kind.path, func(t *testing.T) {
					successes := compareWrites(t, kind.path, kind.manifest, test.writes, sides[1], both)
					if successes < test.writes/8 {
						t.Errorf("only %d of the writes succeed", successes)
					}
				})
				if !ok {
					return // from now on everything differs
				}
			}
			if test.policy != "" {
				compareAudits(t, sides)
			} else {
				compareEvents(t, sides)
			}
			checkPaths(t, sides, paths())
			for _, s := range sides {
				if err := store.Verify(t.Context(), s.backend); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// checkPaths checks that every write took the path that its control plane claims: all writes to the second
// one took the fallback, and many writes to the first one did not.
func checkPaths(t *testing.T, sides []*side, paths endpointstest.Paths) {
	t.Helper()
	t.Logf("%d and %d writes: %v", sides[0].sent, sides[1].sent, paths)
	off := endpointstest.Paths{endpointstest.SwitchedOff: paths[endpointstest.SwitchedOff]}
	delete(paths, endpointstest.SwitchedOff)
	if err := errors.Join(off.Check(false, 1), paths.Check(true, 0.4)); err != nil {
		t.Error(err)
	}
	if off.Sum() != sides[1].sent || paths.Sum() != sides[0].sent {
		t.Errorf("%d and %d writes are counted", paths.Sum(), off.Sum())
	}
}

// TestWriteOfNothing: a write that changes nothing keeps the resource version, although its manager writes at
// another time. A webhook undoes the change of the last write, and the managed fields have a new time until then.
func TestWriteOfNothing(t *testing.T) {
	for path, withoutFastPath := range bothPaths {
		t.Run(path.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				hooks := controlplanetest.ServeWebhooks(t)
				plane, err := controlplane.Start(t.Context(), controlplane.Options{WithoutControllers: true, WithoutFastPath: withoutFastPath, DialWebhook: hooks.Dial})
				if err != nil {
					t.Fatal(err)
				}
				defer plane.Stop()
				paths := endpointstest.Count(t, "configmaps", endpointstest.Writes...)
				client, ctx := controlplanetest.ClientFor(t, plane.Config()), t.Context()
				maps := client.CoreV1().ConfigMaps("default")
				created := controlplanetest.Must[*corev1.ConfigMap](t)(maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "x"}, Data: map[string]string{"a": "b"}}, metav1.CreateOptions{}))
				time.Sleep(2 * time.Second)
				updated := controlplanetest.Must[*corev1.ConfigMap](t)(maps.Update(ctx, created, metav1.UpdateOptions{}))
				patched := controlplanetest.Must[*corev1.ConfigMap](t)(maps.Patch(ctx, "x", types.MergePatchType, []byte(`{"data":{"a":"b"}}`), metav1.PatchOptions{}))
				undo := hooks.Handle("undo", controlplanetest.Patch(`[{"op":"replace","path":"/data/a","value":"b"}]`))
				controlplanetest.CreateMutating(t, client, "undo", controlplanetest.MutatingWebhook("undo", undo, "configmaps"))
				undone := controlplanetest.Must[*corev1.ConfigMap](t)(maps.Patch(ctx, "x", types.MergePatchType, []byte(`{"data":{"a":"c"}}`), metav1.PatchOptions{}))
				paths().Require(t, path, 4)
				for _, after := range []*corev1.ConfigMap{updated, patched, undone} {
					if diff := cmp.Diff(created, after); diff != "" {
						t.Error(diff)
					}
				}
			})
		})
	}
}

// compareAudits compares the audit logs.
func compareAudits(t *testing.T, sides []*side) {
	t.Helper()
	var logs [2][]any
	for i, s := range sides {
		text, err := os.ReadFile(s.audit)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			var event map[string]any
			if err := json.Unmarshal([]byte(line), &event); err != nil {
				t.Fatal(err)
			}
			if uri, _ := event["requestURI"].(string); strings.Contains(uri, "dryRun=All") {
				continue // by validChanges
			}
			for _, field := range []string{"auditID", "requestReceivedTimestamp", "stageTimestamp", "sourceIPs"} {
				delete(event, field)
			}
			if annotations, ok := event["annotations"].(map[string]any); ok {
				maps.DeleteFunc(annotations, func(key string, _ any) bool { return strings.HasPrefix(key, "apiserver.latency.k8s.io/") }) // of slow requests
			}
			s.stable(event["requestObject"])
			s.stable(event["responseObject"])
			s.stable(map[string]any{"kind": "Status", "message": "", "details": event["responseStatus"]})
			if status, ok := event["responseStatus"].(map[string]any); ok {
				status["message"] = "compared in the responses"
				if details, ok := status["details"].(map[string]any); ok {
					delete(details, "uid")
					delete(details, "causes") // compared in the responses
				}
			}
			if ref, ok := event["objectRef"].(map[string]any); ok {
				s.stable(map[string]any{"metadata": ref})
			}
			logs[i] = append(logs[i], event)
		}
	}
	if diff := cmp.Diff(logs[1], logs[0]); diff != "" {
		t.Errorf("the audit logs (-upstream +ours):\n%s", diff)
	}
	if len(logs[0]) < sides[0].sent {
		t.Errorf("%d audit events of %d writes", len(logs[0]), sides[0].sent)
	}
}

// compareWrites makes random writes of one object and returns how many succeed.
func compareWrites(t *testing.T, path, manifest string, writes int, reference *side, both func(*testing.T, write) answer) (successes int) {
	t.Helper()
	random := rand.New(rand.NewSource(1))
	if a := both(t, write{http.MethodPost, path, "application/json", "creator/1", withSystemFields(t, manifest)}); a.Status != http.StatusCreated {
		t.Fatalf("create: %v", a)
	}
	name := path + "/x"
	changes := map[string][]change{name: reference.validChanges(t, name)}
	if both(t, write{http.MethodGet, name + "/status", "", "", ""}).Status == http.StatusOK {
		changes[name+"/status"] = reference.validChanges(t, name+"/status")
	}
	for _, c := range allChanges() { // unknown fields, equal keys in lists, and what belongs to the server
		if c.field == "spec.ports" || strings.HasPrefix(c.field, "metadata.") {
			both(t, write{http.MethodPatch, name, mergePatch, "manager-0/1", patchOf(t, c)})
		}
	}
	for range writes {
		one := write{method: http.MethodPatch, path: name, agent: fmt.Sprintf("manager-%d/1", random.Intn(3))}
		if random.Intn(3) == 0 && changes[name+"/status"] != nil {
			one.path += "/status"
		}
		patch := randomPatch(t, random, changes[one.path])
		switch random.Intn(6) {
		case 0, 1:
			one.contentType, one.body = mergePatch, patch
		case 2:
			one.contentType, one.body = strategicPatch, patch
		case 3:
			one.contentType, one.body = applyPatch, applied(t, manifest, patch)
			one.path += "?fieldManager=" + one.agent[:9] + []string{"", "&force=true"}[random.Intn(2)]
		default:
			stored := both(t, write{http.MethodGet, name, "", "", ""})
			one.method, one.contentType, one.body = http.MethodPut, "application/json", updated(t, stored.Body, patch, random)
			if random.Intn(8) == 0 { // stale
				one.body = versionNames.ReplaceAllString(one.body, "VERSION-0")
			}
		}
		for _, parameter := range []string{"fieldValidation=Strict", "fieldValidation=Warn", "fieldValidation=Ignore", "fieldManager=other", "timeout=30s"} {
			key, _, _ := strings.Cut(parameter, "=")
			if random.Intn(8) == 0 && !strings.Contains(one.path, key) {
				separator := "?"
				if strings.Contains(one.path, "?") {
					separator = "&"
				}
				one.path += separator + parameter
			}
		}
		if a := both(t, one); a.Status < 300 {
			successes++
		}
		if a := both(t, write{http.MethodGet, name, "", "", ""}); a.Status != http.StatusOK { // its last finalizer was removed
			both(t, write{http.MethodPost, path, "application/json", "creator/1", manifest})
		}
	}
	both(t, write{http.MethodDelete, name, "application/json", "deleter/1", ""})
	return successes
}

// withSystemFields returns a manifest with metadata that a create ignores.
func withSystemFields(t *testing.T, manifest string) string {
	t.Helper()
	var obj map[string]any
	if err := json.Unmarshal([]byte(manifest), &obj); err != nil {
		t.Fatal(err)
	}
	overwrite(obj["metadata"].(map[string]any), map[string]any{"uid": "mine", "generation": 7, "creationTimestamp": "2020-01-02T03:04:05Z",
		"deletionTimestamp": "2020-01-02T03:04:05Z", "deletionGracePeriodSeconds": 7})
	body, err := json.Marshal(obj)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// applied returns an apply configuration with the fields of a patch.
func applied(t *testing.T, manifest, patch string) string {
	t.Helper()
	var config, fields map[string]any
	if json.Unmarshal([]byte(manifest), &config) != nil || json.Unmarshal([]byte(patch), &fields) != nil {
		t.Fatal("invalid JSON")
	}
	out := map[string]any{"apiVersion": config["apiVersion"], "kind": config["kind"], "metadata": map[string]any{"name": "x"}}
	overwrite(out, fields)
	body, err := json.Marshal(out)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// updated returns the stored object with the fields of a patch, without the replacements for the comparison.
func updated(t *testing.T, stored any, patch string, random *rand.Rand) string {
	t.Helper()
	obj := stored.(map[string]any)
	metadata := obj["metadata"].(map[string]any)
	for _, field := range []string{"uid", "creationTimestamp", "deletionTimestamp"} {
		delete(metadata, field)
	}
	if random.Intn(2) == 0 {
		delete(metadata, "managedFields")
	}
	var fields map[string]any
	if err := json.Unmarshal([]byte(patch), &fields); err != nil {
		t.Fatal(err)
	}
	overwrite(obj, fields)
	body, err := json.Marshal(obj)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

func overwrite(obj, fields map[string]any) {
	for key, value := range fields {
		inner, ok := obj[key].(map[string]any)
		other, isToo := value.(map[string]any)
		if ok && isToo {
			overwrite(inner, other)
		} else {
			obj[key] = value
		}
	}
}

// compareEvents compares all events of the configmaps and pods since the start.
func compareEvents(t *testing.T, sides []*side) {
	t.Helper()
	for _, resource := range []string{"pods", "configmaps"} {
		var of [2][]string
		for i, s := range sides {
			of[i] = s.eventsOf(t, resource)
		}
		if diff := cmp.Diff(of[1], of[0]); diff != "" {
			t.Errorf("the events of %s (-upstream +ours):\n%s", resource, diff)
		}
		if len(of[0]) < 10 {
			t.Errorf("%d events of %s", len(of[0]), resource)
		}
	}
}

// eventsOf returns the events of a resource in the default namespace up to one of a new object.
func (s *side) eventsOf(t *testing.T, resource string) []string {
	t.Helper()
	all, err := dynamic.NewForConfigAndClient(&rest.Config{Host: s.host}, s.client)
	if err != nil {
		t.Fatal(err)
	}
	client := all.Resource(schema.GroupVersionResource{Version: "v1", Resource: resource}).Namespace("default")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	w, err := client.Watch(ctx, metav1.ListOptions{ResourceVersion: "1", FieldSelector: "metadata.name=x", TimeoutSeconds: new(int64(20))})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	var events []string
	for e := range w.ResultChan() {
		u := e.Object.(*unstructured.Unstructured)
		s.stable(u.Object)
		text, err := json.Marshal(u.Object)
		if err != nil {
			t.Fatal(err)
		}
		events = append(events, string(e.Type)+" "+string(text))
		if e.Type == "DELETED" || u.GetDeletionTimestamp() != nil || u.Object["metadata"].(map[string]any)["deletionTimestamp"] != nil {
			break
		}
	}
	return events
}
