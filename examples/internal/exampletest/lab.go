package exampletest

import (
	"flag"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"flyball.dev/ctrl"
	"flyball.dev/ctrl/config"
	"flyball.dev/ctrl/manager"
	"flyball.dev/ctrl/metrics/server"
	"flyball.dev/examples/internal/example"
	"flyball.dev/internal/testlevel"
	"flyball.dev/lab"
)

var schedules = flag.Int("lab.schedules", testlevel.Rounds(10, 500), "the number of schedules in which something goes wrong, for each example")

// Schedules is that number.
func Schedules() int { return *schedules }

// Lab explores what can go wrong for the operator of an example. Without steps, the scenario is to create the samples and
// to delete the custom resources among them. If setUp is nil, the one of the example adds the controllers.
func Lab(t *testing.T, e *example.Example, scenario lab.Scenario, setUp func(*rest.Config, ctrl.Manager) error) {
	t.Helper()
	scheme, err := e.NewScheme()
	if err != nil {
		t.Fatal(err)
	}
	definitions := read[apiextensionsv1.CustomResourceDefinition](t, e.Config, "crd/bases")
	for _, d := range definitions {
		d.Spec.Conversion = nil // in virtual time, nobody can connect to a webhook
	}
	if scenario.Steps == nil {
		scenario.Steps = Steps(t, e)
	}
	if scenario.Schedules == 0 {
		scenario.Schedules = *schedules
	}
	for _, policy := range Objects(t, e, "policy") {
		scenario.Objects = append(scenario.Objects, policy)
	}
	lab.Explore(t, lab.Operator{CRDs: definitions, Scheme: scheme, Start: starter(t, e, setUp)}, scenario)
}

// starter returns a function that makes a manager with the controllers of an example. If setUp is nil, the one of the example adds
// them.
func starter(t *testing.T, e *example.Example, setUp func(*rest.Config, ctrl.Manager) error) func(*rest.Config) (manager.Manager, error) {
	t.Helper()
	scheme, err := e.NewScheme()
	if err != nil {
		t.Fatal(err)
	}
	return func(cfg *rest.Config) (manager.Manager, error) {
		options := ctrl.Options{
			Scheme:     scheme,
			Metrics:    server.Options{BindAddress: "0"},
			Controller: config.Controller{SkipNameValidation: new(true)},
		}
		if e.Options != nil {
			e.Options(&options)
		}
		mgr, err := ctrl.NewManager(cfg, options)
		if err != nil {
			return nil, err
		}
		if setUp != nil {
			return mgr, setUp(cfg, mgr)
		}
		return mgr, e.SetUp(mgr)
	}
}

// Steps returns the steps that create the samples of an example, and delete the custom resources among them.
func Steps(t *testing.T, e *example.Example) (steps []lab.Step) {
	t.Helper()
	kinds := map[string]bool{}
	for _, d := range read[apiextensionsv1.CustomResourceDefinition](t, e.Config, "crd/bases") {
		kinds[d.Spec.Names.Kind] = true
	}
	samples := Objects(t, e, "samples")
	for _, o := range samples {
		steps = append(steps, lab.Create(o))
	}
	for _, o := range samples {
		if kinds[o.GetKind()] {
			steps = append(steps, lab.Remove(o))
		}
	}
	return steps
}

// Objects returns the objects of a folder of the manifests of an example.
func Objects(t *testing.T, e *example.Example, folder string) []*unstructured.Unstructured {
	t.Helper()
	return read[unstructured.Unstructured](t, e.Config, folder)
}

// read decodes the files of a folder, one object each.
func read[T any](t *testing.T, config fs.FS, folder string) (all []*T) {
	t.Helper()
	files, err := fs.Glob(config, folder+"/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		content, err := fs.ReadFile(config, file)
		if err != nil {
			t.Fatal(err)
		}
		object := new(T)
		if err := yaml.UnmarshalStrict(content, object); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		all = append(all, object)
	}
	return all
}

// External returns the transport of an operator to an external system, which the handler is. The lab lets its requests fail.
func External(cfg *rest.Config, system string, handler http.Handler) http.RoundTripper {
	return lab.Transport(cfg, system, InProcess{handler})
}

// InProcess is a transport to a handler without a network, for virtual time.
type InProcess struct{ Handler http.Handler }

// RoundTrip implements http.RoundTripper.
func (t InProcess) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	w := httptest.NewRecorder()
	t.Handler.ServeHTTP(w, r)
	return w.Result(), nil
}
