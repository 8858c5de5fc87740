package controlplane_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"flyball.dev/apiserver/store"
	"flyball.dev/controlplane"
	"flyball.dev/storage"
	"flyball.dev/storage/memory"
)

// viaUpstream is a query parameter without an effect, with which a write is left to upstream's
// handler.
const viaUpstream = "timeout=30s"

// side is one of two control planes that get the same requests; those of one all go to upstream's
// handlers.
type side struct {
	query   string
	host    string
	client  *http.Client
	backend storage.Store
	// versions are the names of the resource versions that were seen, in their order, and real what
	// they stand for.
	versions, real map[string]string
}

func newSide(t *testing.T, o controlplane.Options, query string) *side {
	t.Helper()
	backend := memory.New(memory.Options{})
	o.WithoutControllers, o.Storage = true, backend
	cfg := start(t, o).Config()
	client, err := rest.HTTPClientFor(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return &side{query: query, host: cfg.Host, client: client, backend: backend, versions: map[string]string{}, real: map[string]string{}}
}

// answer is what a client gets.
type answer struct {
	Status   int
	Warnings []string
	Body     any
}

func (s *side) send(t *testing.T, r write) answer {
	t.Helper()
	path := s.host + r.path
	separator := "?"
	if strings.Contains(path, "?") {
		separator = "&"
	}
	if s.query != "" && r.method != http.MethodGet {
		path += separator + s.query
	}
	body := versionNames.ReplaceAllStringFunc(r.body, func(name string) string { return s.real[name] })
	req, err := http.NewRequestWithContext(t.Context(), r.method, path, strings.NewReader(body))
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

var versionNames = regexp.MustCompile(`VERSION-[0-9]+`)

// stable replaces what is different in each control plane.
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
	for _, entry := range managed {
		entry.(map[string]any)["time"] = "TIME"
	}
	slices.SortFunc(managed, func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) }) // by time
}

var (
	serverValues = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f-]{27}|20[0-9T:-]{17}Z|resourceVersion\\*":\\*"[0-9]+`)
	quoted       = regexp.MustCompile(`(?s)Invalid value: "\{.*": `) // an object, with entries ordered by time
	unordered    = regexp.MustCompile(`(?s)(failed to create typed patch object [^:]*).*`)
)

// stableText replaces what is different in each control plane in a message, and the errors of
// structured-merge-diff, which are in no order.
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

// gadgets are of a kind without a status subresource, whose schema has much of what schemas can have.
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

// patchValues are values of fields, of which patches are made at random. Not all are valid, and many
// kinds do not have the fields.
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
	"spec.ports":                               {`[{"name":"b","port":2}]`, `[{"port":81}]`, `[null]`, `[{"port":81,"name":"x","unknown":1}]`},
	"spec.selector":                            {`{"a":"c"}`, `{"matchLabels":{"a":"c"}}`, `{"matchExpressions":[{"key":"a","operator":"Exists"}]}`},
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

// randomPatch returns a patch of some fields.
func randomPatch(t *testing.T, random *rand.Rand, prefer string) string {
	t.Helper()
	names := slices.Sorted(maps.Keys(patchValues))
	patch := map[string]any{}
	for range 1 + random.Intn(3) {
		name := names[random.Intn(len(names))]
		for tries := 0; tries < 5 && !strings.HasPrefix(name, prefer); tries++ {
			name = names[random.Intn(len(names))]
		}
		texts := patchValues[name]
		var value any
		if err := json.Unmarshal([]byte(texts[random.Intn(len(texts))]), &value); err != nil {
			t.Fatal(err)
		}
		_ = unstructured.SetNestedField(patch, value, strings.Split(name, ".")...)
	}
	body, err := json.Marshal(patch)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// TestUsualWrites sends the same writes to two control planes, one of which leaves all to upstream's
// handlers, and compares the answers, what is stored, and the events of the objects.
func TestUsualWrites(t *testing.T) {
	for name, o := range map[string]controlplane.Options{"with admission": {}} {
		t.Run(name, func(t *testing.T) {
			sides := []*side{newSide(t, o, ""), newSide(t, o, viaUpstream)}
			both := func(t *testing.T, r write) answer {
				t.Helper()
				mine, theirs := sides[0].send(t, r), sides[1].send(t, r)
				if diff := cmp.Diff(theirs, mine); diff != "" {
					t.Fatalf("%s %s by %s: %s (-upstream +ours):\n%s", r.method, r.path, r.agent, r.body, diff)
				}
				return mine
			}
			both(t, write{http.MethodPost, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "application/yaml", "setup", widgets})
			both(t, write{http.MethodPost, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "application/yaml", "setup", gadgets})
			for _, kind := range writtenKinds {
				t.Run(kind.path, func(t *testing.T) {
					successes := compareWrites(t, kind.path, kind.manifest, both)
					if successes < 20 {
						t.Errorf("only %d of the writes succeed", successes)
					}
				})
			}
			compareEvents(t, sides)
			for _, s := range sides {
				if err := store.Verify(t.Context(), s.backend); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// compareWrites makes random writes of one object and returns how many succeed.
func compareWrites(t *testing.T, path, manifest string, both func(*testing.T, write) answer) (successes int) {
	t.Helper()
	random := rand.New(rand.NewSource(1))
	if a := both(t, write{http.MethodPost, path, "application/json", "creator/1", manifest}); a.Status != http.StatusCreated {
		t.Fatalf("create: %v", a)
	}
	name := path + "/x"
	hasStatus := both(t, write{http.MethodGet, name + "/status", "", "", ""}).Status == http.StatusOK
	for range 150 {
		one := write{method: http.MethodPatch, path: name, agent: fmt.Sprintf("manager-%d/1", random.Intn(3))}
		prefer := []string{"metadata", "spec", ""}[random.Intn(3)]
		if hasStatus && random.Intn(3) == 0 {
			one.path, prefer = one.path+"/status", "status"
		}
		patch := randomPatch(t, random, prefer)
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
		}
		if separator := "?"; random.Intn(4) == 0 {
			if strings.Contains(one.path, "?") {
				separator = "&"
			}
			one.path += separator + "fieldValidation=" + []string{"Strict", "Warn", "Ignore"}[random.Intn(3)]
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

// updated returns the stored object with the fields of a patch, without what a comparison replaced.
func updated(t *testing.T, stored any, patch string, random *rand.Rand) string {
	t.Helper()
	obj := stored.(map[string]any)
	metadata := obj["metadata"].(map[string]any)
	for _, field := range []string{"uid", "creationTimestamp", "deletionTimestamp"} {
		delete(metadata, field)
	}
	managed, _ := metadata["managedFields"].([]any)
	for _, entry := range managed {
		entry.(map[string]any)["time"] = "2026-01-02T03:04:05Z"
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
