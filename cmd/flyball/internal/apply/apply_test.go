package apply

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	"flyball.dev/controlplane"
	"flyball.dev/controlplane/controlplanetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// newCluster returns a cluster with nothing in it.
func newCluster(t *testing.T, fixed bool) *Cluster {
	t.Helper()
	plane, err := controlplane.Start(t.Context(), controlplane.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = plane.Stop() }) // it may have ended with the context of the test
	c, err := NewCluster(t.Context(), plane.Config(), "default", fixed)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// documents parses a manifest.
func documents(t *testing.T, manifest string) []*Document {
	t.Helper()
	all, err := Read(t.Context(), strings.NewReader(manifest), false, "-")
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// applyAll applies a manifest, and returns the outcomes.
func applyAll(t *testing.T, c *Cluster, o Options, manifest string) ([]string, error) {
	t.Helper()
	var all []string
	for _, d := range documents(t, manifest) {
		outcome, err := c.Apply(t.Context(), d, o)
		if err != nil {
			return all, err
		}
		all = append(all, outcome.Name+" "+outcome.What)
	}
	return all, nil
}

var widgets = controlplanetest.WidgetDefinition("{spec: {type: object, properties: {size: {type: integer}}}}") + `
---
apiVersion: example.com/v1
kind: Widget
metadata: {name: one}
spec: {size: 1}
`

// TestApply: objects are created, configured or left alone, and a definition is followed by an object
// of its kind.
func TestApply(t *testing.T) {
	c := newCluster(t, false)
	for _, tt := range []struct{ name, manifest, crd, object string }{
		{"the first time", widgets, Created, Created},
		{"again", widgets, Unchanged, Unchanged},
		{"a change", strings.Replace(widgets, "size: 1", "size: 2", 1), Unchanged, Configured},
	} {
		got, err := applyAll(t, c, Options{}, tt.manifest)
		want := []string{"customresourcedefinitions.apiextensions.k8s.io/widgets.example.com " + tt.crd, "widgets.example.com/one " + tt.object}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %q, %v", tt.name, got, err)
		}
	}
	for _, d := range slices.Backward(documents(t, widgets)) {
		for _, want := range []bool{true, false} {
			if name, found, err := c.Delete(t.Context(), d); found != want || err != nil {
				t.Errorf("%s: %v, %v", name, found, err)
			}
		}
	}
}

// TestIntegers: an integer that a float64 cannot hold arrives as it is, and the next one is a change.
func TestIntegers(t *testing.T) {
	c := newCluster(t, false)
	const integers = "{size: {type: integer, format: int64}, most: {type: integer, format: int64, default: 9223372036854775807}}"
	manifest := controlplanetest.WidgetDefinition("{spec: {type: object, properties: "+integers+"}}") + `
---
apiVersion: example.com/v1
kind: Widget
metadata: {name: one}
spec: {size: 9007199254740993}
---
{"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "two"}, "spec": {"size": 9007199254740993}}
---
apiVersion: v1
kind: List
items:
- apiVersion: example.com/v1
  kind: Widget
  metadata: {name: three}
  spec: {size: 9007199254740993}
---
apiVersion: v1
kind: Pod
metadata: {name: pod}
spec: {activeDeadlineSeconds: 2147483647, terminationGracePeriodSeconds: 9223372036854775807, containers: [{name: c, image: i}]}
`
	for _, tt := range []struct{ name, manifest, outcome string }{
		{"the first time", manifest, Created},
		{"again", manifest, Unchanged},
		{"one less", strings.ReplaceAll(manifest, "9007199254740993", "9007199254740992"), Configured},
	} {
		for _, d := range documents(t, tt.manifest) {
			outcome, err := c.Apply(t.Context(), d, Options{})
			if err != nil {
				t.Fatal(err)
			}
			got := fmt.Sprint(outcome.What, outcome.After.Object["spec"])
			want := map[string]string{
				"Widget": fmt.Sprintf("%smap[most:9223372036854775807 size:%d]", tt.outcome, 9007199254740993-strings.Count(tt.name, "less")),
				"Pod":    "terminationGracePeriodSeconds:9223372036854775807",
			}[d.Object.GetKind()]
			if !strings.Contains(got, want) {
				t.Errorf("%s: %s has %s, want %s", tt.name, outcome.Name, got, want)
			}
		}
	}
}

func TestDryRun(t *testing.T) {
	c := newCluster(t, false)
	const m = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"
	for range 2 {
		if got, err := applyAll(t, c, Options{DryRun: true}, m); err != nil || got[0] != "configmaps/a created" {
			t.Errorf("%q, %v", got, err)
		}
	}
}

// TestConflict: fields of others are taken over only by force.
func TestConflict(t *testing.T) {
	c := newCluster(t, false)
	const m = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {x: "
	if _, err := applyAll(t, c, Options{FieldManager: "other"}, m+"a}\n"); err != nil {
		t.Fatal(err)
	}
	_, err := applyAll(t, c, Options{}, m+"b}\n")
	if err == nil || !strings.Contains(err.Error(), `standard input: document 1: configmaps/a: Apply failed with 1 conflict: conflict with "other": .data.x`) {
		t.Error(err)
	}
	if got, err := applyAll(t, c, Options{Force: true}, m+"b}\n"); err != nil || got[0] != "configmaps/a configured" {
		t.Errorf("%q, %v", got, err)
	}
}

func TestApplyErrors(t *testing.T) {
	c := newCluster(t, true)
	for _, tt := range []struct{ name, manifest, want string }{
		{"an unknown kind", "apiVersion: example.com/v1\nkind: X\nmetadata: {name: a}\n",
			"standard input: document 1: the cluster has no kind X in example.com/v1: install its definition first"},
		{"an unknown field", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndat: {}\n", "document 1: configmaps/a: failed to create typed patch object"},
		{"an invalid object", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: A}\n", `configmaps/A: ConfigMap "A" is invalid: metadata.name: Invalid value`},
		{"no such namespace", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: other}\n", `the namespace "other" is not that of --namespace, "default"`},
		{"the second document", "---\n# nothing\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: A}\n", "standard input: document 2: "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := applyAll(t, c, Options{}, tt.manifest); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Error(err)
			}
		})
	}
}

// TestDeleteTimesOut: an object that a finalizer holds is reported as being deleted.
func TestDeleteTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, false)
		const m = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, finalizers: [example.com/x]}\n"
		if _, err := applyAll(t, c, Options{}, m); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		_, found, err := c.Delete(ctx, documents(t, m)[0])
		if !found || err == nil || !strings.Contains(err.Error(), "configmaps/a is being deleted, but still there") ||
			!strings.Contains(err.Error(), "ConfigMap default/a: example.com/x (added by flyball)") {
			t.Errorf("%v, %v", found, err)
		}
	})
}

// TestDeleteDefinitionTimesOut: a definition waits for its objects, so the error names their finalizers and
// who has added them.
func TestDeleteDefinitionTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, false)
		m := widgets + "---\napiVersion: example.com/v1\nkind: Widget\nmetadata: {name: free}\n" +
			"---\napiVersion: example.com/v1\nkind: Widget\nmetadata: {name: held, finalizers: [example.com/cleanup]}\n"
		if _, err := applyAll(t, c, Options{FieldManager: "shop-manager"}, m); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, _, err := c.Delete(ctx, documents(t, widgets)[0])
		if want := "Widget default/held: example.com/cleanup (added by shop-manager)\n"; err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error is %v, want %q in it", err, want)
		}
		if err != nil && (strings.Contains(err.Error(), "free") || strings.Contains(err.Error(), "customresourcecleanup")) {
			t.Errorf("error is %v, which names what does not hold anything back", err)
		}
	})
}

// TestWaitForWhatIsGone: an object that is deleted before the wait begins has no event.
func TestWaitForWhatIsGone(t *testing.T) {
	c := newCluster(t, false)
	objects := c.client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).Namespace("default")
	err := waitFor(t.Context(), objects, "gone", func(e watch.Event) (bool, error) { return e.Type == watch.Deleted, nil })
	if !apierrors.IsNotFound(err) {
		t.Error(err)
	}
}

// TestUnreachable: a server that does not answer is not waited for when the context ends.
func TestUnreachable(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	ctx, cancel := context.WithCancel(t.Context())
	accepted := make(chan net.Conn, 1)
	go func() {
		connection, err := listener.Accept()
		if err == nil {
			cancel() // when the request is under way
			accepted <- connection
		}
	}()
	_, err = NewCluster(ctx, &rest.Config{Host: "http://" + listener.Addr().String()}, "", false)
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	(<-accepted).Close()
}

// withoutDiscovery is a server that answers no discovery.
type withoutDiscovery struct{}

func (withoutDiscovery) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Path != "/version" {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody, Request: r}, nil
}

// TestDiscoveryEnds: discovery ends with the context.
func TestDiscoveryEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := NewCluster(t.Context(), &rest.Config{Host: "http://server", Transport: withoutDiscovery{}}, "", false)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		_, err = c.Apply(ctx, documents(t, widgets)[0], Options{})
		if took := time.Since(start); err == nil || took != time.Second {
			t.Errorf("after %s: %v", took, err)
		}
	})
}

// TestNamesConflict checks that a definition with the names of another fails at once with an explanation, and succeeds
// with its own names.
func TestNamesConflict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, false)
		definition, _, _ := strings.Cut(widgets, "\n---")
		gadgets := strings.NewReplacer("plural: widgets", "plural: gadgets", "name: widgets", "name: gadgets").Replace(definition)
		if _, err := applyAll(t, c, Options{}, definition); err != nil {
			t.Fatal(err)
		}
		for range 2 { // it was there before, the second time
			start := time.Now()
			_, err := applyAll(t, c, Options{}, gadgets)
			if err == nil || !strings.Contains(err.Error(), `gadgets.example.com is not established: "WidgetList" is already in use`) &&
				!strings.Contains(err.Error(), `"Widget" is already in use`) {
				t.Errorf("%v", err)
			}
			if took := time.Since(start); took > time.Second {
				t.Errorf("the error is there after %v", took)
			}
		}
		renamed := strings.NewReplacer("singular: widget", "singular: gadget", "kind: Widget", "kind: Gadget", "WidgetList", "GadgetList").Replace(gadgets)
		if _, err := applyAll(t, c, Options{}, renamed); err != nil {
			t.Error(err)
		}
	})
}

func TestRead(t *testing.T) {
	folder := t.TempDir()
	const cm = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %}\n"
	for path, content := range map[string]string{
		"b.yml":              strings.ReplaceAll(cm, "%", "b"),
		"a.yaml":             "# first\n---\n" + strings.ReplaceAll(cm, "%", "a1") + "---\n" + strings.ReplaceAll(cm, "%", "a2"),
		"c.json":             `{"apiVersion":"v1","kind":"ConfigMapList","items":[{"metadata":{"name":"c1"}},{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c2"}}]}`,
		"two.json/e":         `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"e1"}}` + "\n" + `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"e2"}}`,
		"kustomization.yaml": "resources: [a.yaml]\n",
		"notes.txt":          "nothing",
		"within/d.yaml":      strings.ReplaceAll(cm, "%", "d"),
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(folder, path)), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, path), []byte(content), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(folder, link); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.StripPrefix("/files", http.FileServer(http.Dir(folder))))
	defer server.Close()
	defer http.DefaultClient.CloseIdleConnections()
	for _, tt := range []struct {
		name      string
		recursive bool
		want      string
	}{
		{folder, false, "a1 a2 b c1 c2"},
		{folder, true, "a1 a2 b c1 c2 d"},
		{filepath.Join(folder, "a.yaml"), false, "a1 a2"},
		{link, false, "a1 a2 b c1 c2"},
		{filepath.Join(folder, "two.json/e"), false, "e1 e2"},
		{server.URL + "/files/b.yml", false, "b"},
	} {
		all, err := Read(t.Context(), nil, tt.recursive, tt.name)
		var names []string
		for _, d := range all {
			names = append(names, d.Object.GetName())
		}
		if got := strings.Join(names, " "); err != nil || got != tt.want {
			t.Errorf("%s: %q, %v", tt.name, got, err)
		}
	}
	for name, want := range map[string]string{
		server.URL + "/missing":               "/missing: the server answered 404 Not Found",
		filepath.Join(folder, "missing.yaml"): "no such file or directory",
		filepath.Join(folder, "notes.txt"):    "notes.txt: document 1: error unmarshaling JSON",
		t.TempDir():                           "there are no objects in ",
	} {
		if _, err := Read(t.Context(), nil, false, name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestReadAsKubectl reads any string of JSON, and a key of YAML that overrides one of a merged mapping.
func TestReadAsKubectl(t *testing.T) {
	for _, tt := range []struct{ name, manifest, want string }{
		{"JSON with an escaped emoji", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"x":"\ud83d\ude00"}}`, "map[x:😀]"},
		{"a merge key", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, labels: &labels {app: a, tier: front}}\n" +
			"data:\n  <<: *labels\n  tier: back\n", "map[app:a tier:back]"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			all, err := Read(t.Context(), strings.NewReader(tt.manifest), false, "-")
			if err != nil {
				t.Fatal(err)
			}
			if got := fmt.Sprint(all[0].Object.Object["data"]); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

// TestReadEndsWithItsContext: standard input may have nothing to read yet.
func TestReadEndsWithItsContext(t *testing.T) {
	read, write := io.Pipe()
	defer write.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Read(ctx, read, false, "-"); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestReadErrors(t *testing.T) {
	for _, tt := range []struct{ name, manifest, want string }{
		{"no kind", "apiVersion: v1\nmetadata: {name: a}\n", "document 1: kind is required"},
		{"no version", "kind: ConfigMap\nmetadata: {name: a}\n", "document 1: apiVersion is required"},
		{"no metadata", "apiVersion: v1\nkind: ConfigMap\n", "document 1: ConfigMap: metadata is required"},
		{"no name", "apiVersion: v1\nkind: ConfigMap\nmetadata: {generateName: a}\n", "document 1: ConfigMap: metadata.name is required"},
		{"a key twice", "apiVersion: v1\nkind: ConfigMap\nkind: Pod\nmetadata: {name: a}\n", `line 3: mapping key "kind" already defined at line 2`},
		{"a field of JSON twice", `{"apiVersion":"v1","kind":"ConfigMap","kind":"Pod","metadata":{"name":"a"}}`, `duplicate field "kind"`},
		{"JSON that is cut off", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}} {"apiVersion"`, "document 1: another document follows in it"},
		{"no separator", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n...\nkind: Pod\n", "document 1: another document follows in it"},
		{"a list", "[1, 2]\n", "document 1: json: cannot unmarshal array"},
		{"an item of a list", "apiVersion: v1\nkind: List\nitems: [{apiVersion: v1}]\n", "document 1: "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			all, err := Read(t.Context(), strings.NewReader(tt.manifest), false, "-")
			if err == nil || !strings.Contains(err.Error(), "standard input: ") || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%d documents, %v", len(all), err)
			}
		})
	}
}

func TestDifferences(t *testing.T) {
	const before = "apiVersion: v1\nkind: X\nmetadata: {name: a, resourceVersion: '1'}\nspec: {a: 1, b: 2, list: [{name: one, x: 1}, {name: two}], short: [1]}\nstatus: {x: 1}\n"
	const after = "apiVersion: v1\nkind: X\nmetadata: {name: a, resourceVersion: '2'}\nspec: {b: 3, c: 4, list: [{name: three}, {name: one, x: 2}], short: [1, 2]}\nstatus: {x: 2}\n"
	got := Differences(documents(t, before)[0].Object, documents(t, after)[0].Object)
	want := []string{"spec.a removed", "spec.b changed", "spec.c added", "spec.list[one].x changed", "spec.list[three] added", "spec.list[two] removed", "spec.short changed"}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}
