package endpoints_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"flyball.dev/controlplane/controlplanetest"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"flyball.dev/controlplane"
)

// TestBadInput sends invalid requests. The responses must equal kube-apiserver's, and nothing may change.
func TestBadInput(t *testing.T) {
	plane := controlplanetest.Start(t, controlplane.Options{WithoutControllers: true})
	send := controlplanetest.Sender(t, plane.Config())
	const maps = "/api/v1/namespaces/default/configmaps"
	const definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	if status, _ := send(http.MethodPost, maps, "application/json", `{"metadata":{"name":"there"},"data":{"a":"b"}}`); status != http.StatusCreated {
		t.Fatalf("the first ConfigMap: %d", status)
	}
	for _, tc := range []struct {
		name                     string
		method, path, kind, body string

		status  int
		reason  metav1.StatusReason
		fields  []string // of the causes
		message string   // a part of it
	}{
		{
			name:   "malformed body",
			method: http.MethodPost, path: maps, body: `{"metadata":`,
			status: http.StatusBadRequest, reason: metav1.StatusReasonBadRequest, message: "unexpected end of JSON input",
		},
		{
			name:   "another kind",
			method: http.MethodPost, path: maps, body: `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"x"}}`,
			status: http.StatusBadRequest, reason: metav1.StatusReasonBadRequest, message: "cannot be handled as a ConfigMap",
		},
		{
			name:   "unknown field under strict validation",
			method: http.MethodPost, path: maps + "?fieldValidation=Strict", body: `{"metadata":{"name":"x"},"dato":{}}`,
			status: http.StatusBadRequest, reason: metav1.StatusReasonBadRequest, message: `unknown field "dato"`,
		},
		{
			name:   "wrong type of a field",
			method: http.MethodPost, path: maps, body: `{"metadata":{"name":"x"},"data":{"a":1}}`,
			status: http.StatusBadRequest, reason: metav1.StatusReasonBadRequest, message: "cannot unmarshal number",
		},
		{
			name:   "unknown media type",
			method: http.MethodPost, path: maps, kind: "text/csv", body: `a,b`,
			status: http.StatusUnsupportedMediaType, reason: metav1.StatusReasonUnsupportedMediaType, message: "media type",
		},
		{
			name:   "a name that is no DNS label",
			method: http.MethodPost, path: "/api/v1/namespaces", body: `{"metadata":{"name":"Not_A_Label"}}`,
			status: http.StatusUnprocessableEntity, reason: metav1.StatusReasonInvalid, fields: []string{"metadata.name"},
			message: `Namespace "Not_A_Label" is invalid: metadata.name: Invalid value: "Not_A_Label": a lowercase RFC 1123 label`,
		},
		{
			name:   "no name",
			method: http.MethodPost, path: maps, body: `{}`,
			status: http.StatusUnprocessableEntity, reason: metav1.StatusReasonInvalid, fields: []string{"metadata.name"},
			message: "metadata.name: Required value: name or generateName is required",
		},
		{
			name:   "a name that is taken",
			method: http.MethodPost, path: maps, body: `{"metadata":{"name":"there"}}`,
			status: http.StatusConflict, reason: metav1.StatusReasonAlreadyExists, message: `configmaps "there" already exists`,
		},
		{
			name:   "a namespace that is absent",
			method: http.MethodPost, path: "/api/v1/namespaces/nowhere/configmaps", body: `{"metadata":{"name":"x"}}`,
			status: http.StatusNotFound, reason: metav1.StatusReasonNotFound, message: `namespaces "nowhere" not found`,
		},
		{
			name:   "a namespace that is not the path's",
			method: http.MethodPost, path: maps, body: `{"metadata":{"name":"x","namespace":"other"}}`,
			status: http.StatusBadRequest, reason: metav1.StatusReasonBadRequest, message: "does not match the namespace",
		},
		{
			name:   "an old resource version",
			method: http.MethodPut, path: maps + "/there", body: `{"metadata":{"name":"there","resourceVersion":"1"}}`,
			status: http.StatusConflict, reason: metav1.StatusReasonConflict, message: "the object has been modified",
		},
		{
			name:   "a resource version that is none",
			method: http.MethodPut, path: maps + "/there", body: `{"metadata":{"name":"there","resourceVersion":"latest"}}`,
			status: http.StatusBadRequest, reason: metav1.StatusReasonBadRequest, message: `strconv.ParseUint: parsing "latest": invalid syntax`,
		},
		{
			name:   "a resource version that is none, in an apply",
			method: http.MethodPatch, path: maps + "/there?fieldManager=me", kind: "application/apply-patch+yaml", body: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: there, resourceVersion: latest}",
			status: http.StatusBadRequest, reason: metav1.StatusReasonBadRequest, message: `strconv.ParseUint: parsing "latest": invalid syntax`,
		},
		{
			name:   "a resource version that is none, of a list",
			method: http.MethodGet, path: maps + "?resourceVersion=latest", message: `strconv.ParseUint: parsing "latest": invalid syntax`,
			status: http.StatusBadRequest, reason: metav1.StatusReasonBadRequest,
		},
		{
			name:   "a resource version that is none, of a watch",
			method: http.MethodGet, path: maps + "?watch=true&resourceVersion=latest", message: `resourceVersion: Invalid value: "latest": strconv.ParseUint`,
			status: http.StatusBadRequest, reason: metav1.StatusReasonBadRequest,
		},
		{
			name:   "a timeout that is none",
			method: http.MethodGet, path: maps + "?timeout=soon", message: `invalid timeout specified in the request URL - time: invalid duration "soon"`,
			status: http.StatusBadRequest, reason: metav1.StatusReasonBadRequest,
		},
		{
			name:   "the name of another object",
			method: http.MethodPut, path: maps + "/there", body: `{"metadata":{"name":"elsewhere"}}`,
			status: http.StatusBadRequest, reason: metav1.StatusReasonBadRequest, message: "the name of the object (elsewhere) does not match the name on the URL (there)",
		},
		{
			name:   "a patch of an unknown type",
			method: http.MethodPatch, path: maps + "/there", kind: "application/json", body: `{}`,
			status: http.StatusUnsupportedMediaType, reason: metav1.StatusReasonUnsupportedMediaType, message: "415: Unsupported Media Type",
		},
		{
			name:   "a JSON patch that does not fit",
			method: http.MethodPatch, path: maps + "/there", kind: "application/json-patch+json", body: `[{"op":"remove","path":"/data/absent"}]`,
			status: http.StatusUnprocessableEntity, reason: metav1.StatusReasonInvalid, message: "the server rejected our request due to an error in our request",
		},
		{
			name:   "a strategic merge patch that retains what is no key",
			method: http.MethodPatch, path: "/api/v1/namespaces/default", kind: "application/strategic-merge-patch+json", body: `{"spec":{"$retainKeys":[[]]}}`,
			status: http.StatusBadRequest, reason: metav1.StatusReasonBadRequest, message: "a directive or a merge key has a value of a wrong type",
		},
		{
			name:   "an apply of an unknown field",
			method: http.MethodPatch, path: maps + "/there?fieldManager=me", kind: "application/apply-patch+yaml", body: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: there}\ndato: {}",
			status: http.StatusBadRequest, reason: metav1.StatusReasonBadRequest, message: ".dato: field not declared in schema",
		},
		{
			name:   "a definition in protobuf of another kind",
			method: http.MethodPost, path: definitions, kind: "application/vnd.kubernetes.protobuf", body: "k8s\x00\n\x0f\n\x02v1\x12\tConfigMap\x12\x07\n\x05\n\x01y\x12\x00",
			status: http.StatusBadRequest, reason: metav1.StatusReasonBadRequest, message: "cannot be handled as a CustomResourceDefinition",
		},
		{
			name:   "an apply without a manager",
			method: http.MethodPatch, path: maps + "/there", kind: "application/apply-patch+yaml", body: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: there}",
			status: http.StatusUnprocessableEntity, reason: metav1.StatusReasonInvalid, fields: []string{"fieldManager"}, message: "fieldManager: Required value",
		},
		{
			name:   "a label selector that cannot be parsed",
			method: http.MethodGet, path: maps + "?labelSelector=a%20in%20(", message: "unable to parse requirement",
			status: http.StatusBadRequest, reason: metav1.StatusReasonBadRequest,
		},
		{
			name:   "a field selector that cannot be parsed",
			method: http.MethodGet, path: maps + "?fieldSelector=nonsense", message: "invalid selector",
			status: http.StatusBadRequest, reason: metav1.StatusReasonBadRequest,
		},
		{
			name:   "a field that cannot be selected by",
			method: http.MethodGet, path: maps + "?fieldSelector=data.a=b", message: `"data.a" is not a known field selector`,
			status: http.StatusBadRequest, reason: metav1.StatusReasonBadRequest,
		},
		{
			name:   "a continue token that is none",
			method: http.MethodGet, path: maps + "?limit=1&continue=nonsense", message: "continue",
			status: http.StatusBadRequest, reason: metav1.StatusReasonBadRequest,
		},
		{
			name:   "a body over the limit",
			method: http.MethodPost, path: maps, body: `{"metadata":{"name":"x"},"data":{"a":"` + strings.Repeat("x", 4<<20) + `"}}`,
			status: http.StatusRequestEntityTooLarge, reason: metav1.StatusReasonRequestEntityTooLarge, message: "limit is 3145728",
		},
		{
			name:   "a verb that the resource does not have",
			method: http.MethodPost, path: maps + "/there", body: `{}`,
			status: http.StatusMethodNotAllowed, reason: metav1.StatusReasonMethodNotAllowed, message: "the server does not allow this method on the requested resource",
		},
		{
			name:   "a definition whose schema is not structural",
			method: http.MethodPost, path: definitions, body: definition(`{"type":"object","properties":{"spec":{"properties":{"n":{"type":"integer"}}}}}`),
			status: http.StatusUnprocessableEntity, reason: metav1.StatusReasonInvalid,
			fields: []string{"spec.validation.openAPIV3Schema.properties[spec].type"}, message: "must not be empty for specified object fields",
		},
		{
			name:   "a definition with a rule that does not compile",
			method: http.MethodPost, path: definitions, body: definition(`{"type":"object","x-kubernetes-validations":[{"rule":"self.absent > 1"}]}`),
			status: http.StatusUnprocessableEntity, reason: metav1.StatusReasonInvalid,
			fields: []string{"spec.validation.openAPIV3Schema.x-kubernetes-validations[0].rule"}, message: "compilation failed",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, before := send(http.MethodGet, maps, "", "")
			kind := tc.kind
			if kind == "" {
				kind = "application/json"
			}
			code, body := send(tc.method, tc.path, kind, tc.body)
			var status metav1.Status
			if err := json.Unmarshal(body, &status); err != nil {
				t.Fatalf("the response %d is not a Status: %q", code, body)
			}
			if code != tc.status || int(status.Code) != tc.status || status.Reason != tc.reason || !strings.Contains(status.Message, tc.message) {
				t.Errorf("got %d %s: %s\nwant %d %s: … %s …", code, status.Reason, status.Message, tc.status, tc.reason, tc.message)
			}
			if tc.fields != nil {
				if status.Details == nil {
					t.Fatalf("the status has no details: %s", body)
				}
				var fields []string
				for _, cause := range status.Details.Causes {
					fields = append(fields, cause.Field)
				}
				if diff := cmp.Diff(tc.fields, fields); diff != "" {
					t.Errorf("fields of the causes (-want +got):\n%s\nin %s", diff, body)
				}
			}
			if _, after := send(http.MethodGet, maps, "", ""); string(before) != string(after) {
				t.Errorf("something changed: before\n%s\nafter\n%s", before, after)
			}
		})
	}
}

func TestUnknownPaths(t *testing.T) {
	plane := controlplanetest.Start(t, controlplane.Options{WithoutControllers: true})
	send := controlplanetest.Sender(t, plane.Config())
	for _, path := range []string{
		"/api/v1/namespaces/default/status/foo",
		"/api/v1/namespaces/default/pods/x/status/foo",
		"/api/v1/nodes/x/status/foo/bar",
		"/apis/apps/v1/namespaces/default/deployments/x/scale/foo",
		"/api/v1/namespaces/default/pods/x/nothing",
		"/api/v1/namespaces/default/nothing",
		"/api/v1/pods/x",
		"/api/v2/pods",
	} {
		for _, method := range []string{http.MethodGet, http.MethodPut, http.MethodPatch, http.MethodPost, http.MethodDelete} {
			if status, body := send(method, path, "application/json", "{}"); status != http.StatusNotFound {
				t.Errorf("%s %s returned %d %.200s; want 404", method, path, status, body)
			}
		}
	}
}

func definition(schema string) string {
	return `{"metadata":{"name":"widgets.example.com"},"spec":{"group":"example.com","scope":"Namespaced",
		"names":{"plural":"widgets","kind":"Widget"},
		"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":` + schema + `}}]}}`
}

// TestUnmergeablePatches sends strategic merge patches that have directives and merge keys of wrong
// types, of objects that have the list that is patched and of one that does not.
func TestUnmergeablePatches(t *testing.T) {
	send := controlplanetest.Sender(t, controlplanetest.Start(t, controlplane.Options{WithoutControllers: true}).Config())
	const accounts = "/api/v1/namespaces/default/serviceaccounts"
	for _, account := range []string{
		`{"metadata":{"name":"empty"}}`,
		`{"metadata":{"name":"full","finalizers":["example.com/a"],"annotations":{"a":"b"}},"secrets":[{"name":"a"}]}`,
	} {
		if status, body := send(http.MethodPost, accounts, "application/json", account); status != http.StatusCreated {
			t.Fatalf("%d %s", status, body)
		}
	}
	for _, name := range []string{"empty", "full"} {
		for _, patch := range []string{
			`{"secrets":[{"name":[]}]}`,
			`{"secrets":[{"name":{}},{"name":{}}]}`,
			`{"secrets":[{"name":{},"$patch":"delete"},{"name":{}},{"name":{}}]}`,
			`{"secrets":[{"name":"b"}],"$setElementOrder/secrets":[{"name":[]}]}`,
			`{"secrets":[{"name":"b"}],"$setElementOrder/secrets":[{"name":"b"},[]]}`,
			`{"metadata":{"finalizers":["example.com/b"],"$setElementOrder/finalizers":["example.com/b",{}]}}`,
			`{"metadata":{"finalizers":[[],{}]}}`,
			`{"metadata":{"finalizers":[{}]}}`,
			`{"metadata":{"$deleteFromPrimitiveList/finalizers":[{}]}}`,
			`{"metadata":{"$deleteFromPrimitiveList/finalizers":[[],[]]}}`,
			`{"metadata":{"annotations":{"$retainKeys":[1]}}}`,
			`{"$retainKeys":[{}]}`,
			`{"$retainKeys":{}}`,
		} {
			for _, query := range []string{"?dryRun=All", ""} {
				_, before := send(http.MethodGet, accounts+"/"+name, "", "")
				status, body := send(http.MethodPatch, accounts+"/"+name+query, "application/strategic-merge-patch+json", patch)
				if status != http.StatusOK && status != http.StatusBadRequest && status != http.StatusUnprocessableEntity {
					t.Errorf("%s%s: %s: %d %s", name, query, patch, status, body)
				}
				if _, after := send(http.MethodGet, accounts+"/"+name, "", ""); status != http.StatusOK && string(after) != string(before) {
					t.Errorf("%s: %s has changed the object to %s", name, patch, after)
				}
			}
		}
	}
}
