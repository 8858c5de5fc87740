// Package tour goes through the life of a kind with several versions, from the first one to the
// removal of that version, and checks each step against the API.
package tour

import (
	"context"
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"flyball.dev/ctrl/client"
	"flyball.dev/examples/internal/await"
	"flyball.dev/examples/internal/example"
	v1 "flyball.dev/examples/versions/api/v1"
	"flyball.dev/examples/versions/api/v1alpha1"
	"flyball.dev/examples/versions/api/v1beta1"
	"flyball.dev/examples/versions/internal/controller"
)

// PageSize is the size of the pages of the migration in the tour, so that there are several.
const PageSize = 2

// Steps returns the steps in order; each starts where the one before it has ended.
func Steps(shared *example.World) []example.Step {
	w := &world{World: shared}
	step := example.NewStep
	return []example.Step{
		step("the first release: the definition has v1alpha1 alone, and Proxies are stored in it", w.firstRelease),
		step("the new release: v1 is stored from now on, and the old objects stay as they are", w.newRelease),
		step("no operator yet: v1alpha1 can be read, v1 cannot, since that needs the conversion webhook", w.unconverted),
		step("v1alpha1 cannot be removed from the definition: objects are stored in it", w.needed),
		step("the operator starts: it rewrites all objects, and removes v1alpha1 from the stored versions", w.migrated),
		step("a migration of what is migrated writes nothing", w.idempotent),
		step("a Proxy is created in each version, and read in all", w.everyVersion),
		step("defaults are set in the hub, once for a request in whatever version", w.defaults),
		step("what only v1 has survives writes in older versions", w.lossless),
		step("a value that v1 does not have any more stays in older versions, until v1 is changed", w.removedValue),
		step("what is refused has the field in the version of the request", w.invalid),
		step("the host cannot be changed, in no version", w.immutable),
		step("old versions have their own columns, and v1alpha1 has a warning", w.oldVersion),
		step("a watch of v1alpha1 gets converted events", w.watched),
		step("a ConfigMap is deleted: created again; one of somebody else is left alone", w.configMaps),
		step("the operator is stopped: v1 can be read, v1alpha1 cannot, and no spec can be changed", w.stopped),
		step("it starts again, as if in the middle of a migration, and ends it", w.restarted),
		step("v1alpha1 is removed from the definition: no object is lost", w.removed),
	}
}

// world is the state that the steps share.
type world struct {
	*example.World
	operator *example.Operator
	// definition is the definition of the new release.
	definition *apiextensionsv1.CustomResourceDefinition
}

// named returns the metadata of a Proxy.
func named(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: example.Namespace, Name: name}
}

// specs are the specs of a Proxy in all versions.
type specs struct {
	Alpha v1alpha1.ProxySpec
	Beta  v1beta1.ProxySpec
	Hub   v1.ProxySpec
}

// specsOf returns the specs of a Proxy in all versions.
func specsOf(host string, port, connections int32, balancing string, attempts int32) specs {
	return specs{
		v1alpha1.ProxySpec{Target: fmt.Sprintf("%s:%d", host, port), Connections: &connections,
			Balancing: v1alpha1.Balancing(balancing)},
		v1beta1.ProxySpec{Host: host, Port: &port, Connections: &connections, Balancing: v1beta1.Balancing(balancing)},
		v1.ProxySpec{Host: host, Port: &port, MaxConnections: &connections, Balancing: v1.Balancing(balancing),
			Retries: &v1.Retries{Attempts: attempts}},
	}
}

// read checks the spec of a Proxy in all versions.
func (w *world) read(ctx context.Context, name string, want specs) error {
	alpha := &v1alpha1.Proxy{ObjectMeta: named(name)}
	beta := &v1beta1.Proxy{ObjectMeta: named(name)}
	hub := &v1.Proxy{ObjectMeta: named(name)}
	for _, proxy := range []client.Object{alpha, beta, hub} {
		if err := w.Client.Get(ctx, client.ObjectKeyFromObject(proxy), proxy); err != nil {
			return err
		}
	}
	if got := (specs{alpha.Spec, beta.Spec, hub.Spec}); !equality.Semantic.DeepEqual(got, want) {
		return fmt.Errorf("the Proxy %s has %+v, want %+v", name, got, want)
	}
	return nil
}

// ready waits until the controller has configured a Proxy, of its newest generation.
func (w *world) ready(ctx context.Context, name string) error {
	return w.condition(ctx, name, metav1.ConditionTrue, controller.ReasonConfigured)
}

// condition waits until Ready has that status and reason, of the newest generation.
func (w *world) condition(ctx context.Context, name string, status metav1.ConditionStatus, reason string) error {
	return await.Object(ctx, w.Client, &v1.Proxy{ObjectMeta: named(name)}, func(p *v1.Proxy) string {
		c := meta.FindStatusCondition(p.Status.Conditions, v1.ConditionReady)
		if c == nil || c.Status != status || c.Reason != reason || c.ObservedGeneration != p.Generation {
			return fmt.Sprintf("Ready of the Proxy %s is %+v, want %s because of %s", name, c, status, reason)
		}
		return ""
	})
}

// all returns all Proxies, in v1.
func (w *world) all(ctx context.Context) ([]v1.Proxy, error) {
	list := &v1.ProxyList{}
	err := w.list(ctx, list)
	return list.Items, err
}

// list lists the Proxies of the tour.
func (w *world) list(ctx context.Context, list client.ObjectList) error {
	return w.Client.List(ctx, list, client.InNamespace(example.Namespace))
}
