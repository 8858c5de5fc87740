package endpoints_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"flyball.dev/controlplane/controlplanetest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"flyball.dev/apiserver/endpoints/endpointstest"
	"flyball.dev/controlplane"
)

const (
	podsPath       = "/api/v1/namespaces/default/pods"
	configMapsPath = "/api/v1/namespaces/default/configmaps"
)

// listed returns n texts with their numbers in place of "#", as elements of a list.
func listed(n int, text string) string {
	all := make([]string, n)
	for i := range all {
		all[i] = strings.ReplaceAll(text, "#", fmt.Sprint(i))
	}
	return strings.Join(all, ",")
}

// limitsSchema is the schema of the objects of TestLimits.
const limitsSchema = `{"type":"object","properties":{"spec":{"type":"object","properties":{
	"set":{"type":"array","x-kubernetes-list-type":"set","items":{"type":"string"}},
	"map":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["n"],"items":{"type":"object","required":["n"],"properties":{"n":{"type":"string"}}}},
	"texts":{"type":"array","items":{"type":"string"}},
	"byName":{"type":"object","additionalProperties":{"type":"object"}},
	"listsByName":{"type":"object","additionalProperties":{"type":"array","items":{"type":"string"}}},
	"filled":{"type":"array","items":{"type":"object","properties":{"text":{"type":"string","default":"%s"}}}},
	"any":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}}}`

// celDefinition returns a definition of gadgets with a rule on a list.
func celDefinition(rule string) string {
	return strings.ReplaceAll(strings.ReplaceAll(definition(`{"type":"object","properties":{"spec":{"type":"object",
		"properties":{"l":{"type":"array","items":{"type":"string"}}},"x-kubernetes-validations":[{"rule":"`+rule+`"}]}}}`),
		"widgets", "gadgets"), "Widget", "Gadget")
}

// TestLimits sends a request beyond each bound that the table in docs/limits.md says this test is for, and one
// within it.
func TestLimits(t *testing.T) {
	plane := controlplanetest.Start(t, controlplane.Options{WithoutControllers: true})
	send := controlplanetest.Sender(t, plane.Config())
	create := func(path, body string) {
		t.Helper()
		if code, answer := send(http.MethodPost, path, "application/json", body); code != http.StatusCreated {
			t.Fatalf("%s: %d %.300s", path, code, answer)
		}
	}
	create(definitionsPath, definition(fmt.Sprintf(limitsSchema, strings.Repeat("d", 100<<10))))
	create(widgetsPath, widget("there", `{"any":{"list":[`+listed(20_000, "1")+`]}}`))
	create(configMapsPath, `{"metadata":{"name":"there","finalizers":[`+listed(4000, `"a.b/f#"`)+`]}}`)
	const (
		asJSON, jsonPatch        = "application/json", "application/json-patch+json"
		strategicMerge, applied  = "application/strategic-merge-patch+json", "application/apply-patch+yaml"
		there, config, onlyTried = widgetsPath + "/there", configMapsPath + "/there", "?dryRun=All"
	)
	longKey := strings.Repeat("k", 600<<10)
	cases := []struct {
		name, method, path, kind string
		within, beyond           string
		code                     int
		message                  string
	}{
		{"a JSON patch that moves elements of lists", http.MethodPatch, there + onlyTried, jsonPatch,
			`[` + listed(100, `{"op":"add","path":"/spec/any/list/0","value":1}`) + `]`,
			`[` + listed(8000, `{"op":"add","path":"/spec/any/list/0","value":1}`) + `]`,
			http.StatusRequestEntityTooLarge, "The allowed maximum of list elements that a JSON patch moves is 134217728"},
		{"a strategic merge patch of long lists", http.MethodPatch, config + onlyTried, strategicMerge,
			`{"metadata":{"finalizers":["a.b/g"]}}`,
			`{"metadata":{"finalizers":[` + listed(2000, `"a.b/g#"`) + `]}}`,
			http.StatusRequestEntityTooLarge, "got 6000 at metadata.finalizers"},
		{"a built-in object of very many small objects", http.MethodPost, podsPath + onlyTried, asJSON,
			`{"metadata":{"name":"p"},"spec":{"containers":[` + listed(300, `{"name":"c#","image":"i"}`) + `]}}`,
			`{"metadata":{"name":"p"},"spec":{"containers":[` + listed(150_001, `{}`) + `]}}`,
			http.StatusRequestEntityTooLarge, "limit is 150000 objects"},
		{"a custom resource with long lists of the types set and map", http.MethodPost, widgetsPath + onlyTried, asJSON,
			widget("x", `{"set":[`+listed(2000, `"s#"`)+`],"map":[`+listed(2000, `{"n":"k#"}`)+`]}`),
			widget("x", `{"set":[`+listed(20_000, `"s#"`)+`],"map":[`+listed(10_001, `{"n":"k#"}`)+`]}`),
			http.StatusBadRequest, "lists of type set or map"},
		{"an apply of a wide map that upstream's field manager serves", http.MethodPatch, widgetsPath + "/x?fieldManager=me&dryRun=All", applied,
			widget("x", `{"any":{`+listed(2000, `"k#":1`)+`}}`),
			widget("x", `{"any":{`+listed(50_001, `"k#":1`)+`}}`),
			http.StatusRequestEntityTooLarge, "The allowed maximum of fields in one map"},
		{"a custom resource with very many defaults", http.MethodPost, widgetsPath + onlyTried, asJSON,
			widget("x", `{"filled":[`+listed(2, `{}`)+`]}`),
			widget("x", `{"filled":[`+listed(40, `{}`)+`]}`),
			http.StatusBadRequest, "the defaults of the schema would add more than 3145728 bytes"},
		{"a custom resource with very many invalid values", http.MethodPost, widgetsPath + onlyTried, asJSON,
			widget("x", `{"texts":["1"]}`),
			widget("x", `{"texts":[`+listed(300_000, "1")+`]}`),
			http.StatusUnprocessableEntity, "the object has more than 1000 values that do not match its schema"},
		{"a custom resource with invalid values below a very long key", http.MethodPost, widgetsPath + onlyTried, asJSON,
			widget("x", `{"listsByName":{"k":["1"]}}`),
			widget("x", `{"listsByName":{"`+longKey+`":[`+listed(20_000, "1")+`]}}`),
			http.StatusUnprocessableEntity, "very long paths"},
		{"a custom resource with very many unknown fields", http.MethodPost, widgetsPath + onlyTried + "&fieldValidation=Strict", asJSON,
			widget("x", `{"byName":{"a":{}}}`),
			widget("x", `{"byName":{"`+longKey+`":{`+listed(20_000, `"k#":1`)+`}}}`),
			http.StatusBadRequest, "unknown field"},
		{"a built-in object with very many errors", http.MethodPost, podsPath + onlyTried, asJSON,
			`{"metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i"}]}}`,
			`{"metadata":{"name":"p"},"spec":{"containers":[` + listed(20_000, `{"name":"_#"}`) + `]}}`,
			http.StatusUnprocessableEntity, "and these are the first"},
		{"a definition with a costly CEL rule", http.MethodPost, definitionsPath + onlyTried, asJSON,
			celDefinition("size(self.l) < 9"),
			celDefinition("self.l.all(a, self.l.all(b, self.l.all(c, a == b || b == c)))"),
			http.StatusUnprocessableEntity, "estimated rule cost exceeds budget"},
	}
	var names []string
	for _, tc := range cases {
		names = append(names, tc.name)
		t.Run(tc.name, func(t *testing.T) {
			if code, body := send(tc.method, tc.path, tc.kind, tc.within); code >= http.StatusBadRequest {
				t.Errorf("within the bound: %d %.300s", code, body)
			}
			code, body := send(tc.method, tc.path, tc.kind, tc.beyond)
			var status metav1.Status
			if err := json.Unmarshal(body, &status); err != nil || status.Reason == "" {
				t.Fatalf("the response %d is not a Status with a reason: %.200q", code, body)
			}
			if code != tc.code || !strings.Contains(status.Message, tc.message) {
				t.Errorf("beyond the bound: %d %s: %.600s", code, status.Reason, status.Message)
			}
			if len(body) > 3<<20 {
				t.Errorf("the answer has %d bytes", len(body))
			}
		})
	}
	page, err := os.ReadFile("../../docs/limits.md")
	if err != nil {
		t.Fatal(err)
	}
	var documented []string
	for _, row := range regexp.MustCompile("(?m)^\\| ([^|]*) \\|.*`TestLimits`.*\\|$").FindAllSubmatch(page, -1) {
		documented = append(documented, string(row[1]))
	}
	slices.Sort(names)
	slices.Sort(documented)
	if !slices.Equal(names, documented) {
		t.Errorf("docs/limits.md names %q, and this test has %q", documented, names)
	}
}

// TestConflictIsBounded checks that on both paths, the field manager of k8s.io/apiserver finds a conflict with very
// many fields.
func TestConflictIsBounded(t *testing.T) {
	for path, withoutFastPath := range bothPaths {
		t.Run(path.Name, func(t *testing.T) {
			plane := controlplanetest.Start(t, controlplane.Options{WithoutControllers: true, WithoutFastPath: withoutFastPath})
			send := controlplanetest.Sender(t, plane.Config())
			for _, request := range [][3]string{
				{definitionsPath, "application/json", definition(fmt.Sprintf(limitsSchema, ""))},
				{widgetsPath, "application/json", widget("x", `{"any":{`+listed(50_001, `"k#":1`)+`}}`)},
			} {
				if code, answer := send(http.MethodPost, request[0], request[1], request[2]); code != http.StatusCreated {
					t.Fatalf("%s: %d %.300s", request[0], code, answer)
				}
			}
			for n, want := range map[int]int{10: http.StatusConflict, 50_001: http.StatusRequestEntityTooLarge} {
				paths := endpointstest.Count(t, "widgets", "patch")
				code, answer := send(http.MethodPatch, widgetsPath+"/x?fieldManager=other", "application/apply-patch+yaml",
					widget("x", `{"any":{`+listed(n, `"k#":2`)+`}}`))
				paths().Require(t, path, 1)
				if code != want {
					t.Errorf("%d fields: %d %.300s", n, code, answer)
				}
			}
		})
	}
}
