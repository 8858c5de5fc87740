package tour

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/metrics"
	"flyball.dev/examples/internal/await"
	"flyball.dev/examples/internal/example"
	v1 "flyball.dev/examples/versions/api/v1"
	"flyball.dev/examples/versions/api/v1alpha1"
	"flyball.dev/examples/versions/api/v1beta1"
	"flyball.dev/examples/versions/internal/controller"
)

// patch merges a patch into an object, in the version of the object.
func (w *world) patch(ctx context.Context, obj client.Object, body string) error {
	return w.Client.Patch(ctx, obj, client.RawPatch(types.MergePatchType, []byte(body)))
}

func (w *world) everyVersion(ctx context.Context) error {
	for _, version := range []string{"v1alpha1", "v1beta1", "v1"} {
		name := "in-" + version
		want := specsOf(name+".example.com", 8443, 7, "LeastConnections", v1.DefaultAttempts)
		hub := want.Hub
		hub.Retries = nil
		proxy := map[string]client.Object{
			"v1alpha1": &v1alpha1.Proxy{ObjectMeta: named(name), Spec: want.Alpha},
			"v1beta1":  &v1beta1.Proxy{ObjectMeta: named(name), Spec: want.Beta},
			"v1":       &v1.Proxy{ObjectMeta: named(name), Spec: hub},
		}[version]
		if err := w.Client.Create(ctx, proxy); err != nil {
			return err
		}
		if err := w.read(ctx, name, want); err != nil {
			return fmt.Errorf("created in %s: %w", version, err)
		}
		if err := w.ready(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// defaults creates a Proxy in each version with nothing but a host, and counts the requests to the
// webhook.
func (w *world) defaults(ctx context.Context) error {
	if err := w.operator.Idle(ctx); err != nil {
		return err
	}
	before, err := defaulted()
	if err != nil {
		return err
	}
	for i, proxy := range []client.Object{
		&v1alpha1.Proxy{ObjectMeta: named("default-v1alpha1"), Spec: v1alpha1.ProxySpec{Target: "default.example.com"}},
		&v1beta1.Proxy{ObjectMeta: named("default-v1beta1"), Spec: v1beta1.ProxySpec{Host: "default.example.com"}},
		&v1.Proxy{ObjectMeta: named("default-v1"), Spec: v1.ProxySpec{Host: "default.example.com"}},
	} {
		if err := w.Client.Create(ctx, proxy); err != nil {
			return err
		}
		want := specsOf("default.example.com", v1.DefaultPort, v1.DefaultMaxConnections, "RoundRobin", v1.DefaultAttempts)
		if err := w.read(ctx, proxy.GetName(), want); err != nil {
			return err
		}
		after, err := defaulted()
		if err != nil {
			return err
		}
		if after != before+float64(i+1) {
			return fmt.Errorf("the webhook was called %v times for %d requests", after-before, i+1)
		}
	}
	return nil
}

// defaulted returns how often the defaulting webhook was called, which the metrics of the operator
// say.
func defaulted() (n float64, err error) {
	families, err := metrics.Registry.Gather()
	for _, family := range families {
		if family.GetName() != "controller_runtime_webhook_requests_total" {
			continue
		}
		for _, metric := range family.GetMetric() {
			for _, label := range metric.GetLabel() {
				if label.GetName() == "webhook" && label.GetValue() == "/mutate-net-example-com-v1-proxy" {
					n += metric.GetCounter().GetValue()
				}
			}
		}
	}
	return n, err
}

// lossless creates a Proxy with retries, and changes other fields in both older versions.
func (w *world) lossless(ctx context.Context) error {
	const name = "lossless"
	want := specsOf("lossless.example.com", 80, 100, "RoundRobin", 7)
	if err := w.Client.Create(ctx, &v1.Proxy{ObjectMeta: named(name), Spec: want.Hub}); err != nil {
		return err
	}
	if err := w.ready(ctx, name); err != nil {
		return err
	}
	alpha := &v1alpha1.Proxy{ObjectMeta: named(name)}
	if err := w.Client.Get(ctx, client.ObjectKeyFromObject(alpha), alpha); err != nil {
		return err
	}
	if alpha.Annotations[v1.RetriesAnnotation] != `{"attempts":7}` {
		return fmt.Errorf("v1alpha1 has the annotations %v", alpha.Annotations)
	}
	alpha.Spec.Connections = new(int32(200))
	if err := w.Client.Update(ctx, alpha); err != nil {
		return err
	}
	if err := w.patch(ctx, &v1beta1.Proxy{ObjectMeta: named(name)}, `{"spec":{"port":81}}`); err != nil {
		return err
	}
	if err := w.read(ctx, name, specsOf("lossless.example.com", 81, 200, "RoundRobin", 7)); err != nil {
		return err
	}
	hub := &v1.Proxy{ObjectMeta: named(name)}
	if err := w.Client.Get(ctx, client.ObjectKeyFromObject(hub), hub); err != nil {
		return err
	}
	if len(hub.Annotations) != 0 {
		return fmt.Errorf("v1 has the annotations %v", hub.Annotations)
	}
	return nil
}

// removedValue creates a Proxy with a balancing that v1 does not have, and changes it in v1: first
// something else, and then the balancing.
func (w *world) removedValue(ctx context.Context) error {
	const name = "random"
	proxy := &v1beta1.Proxy{ObjectMeta: named(name), Spec: v1beta1.ProxySpec{Host: "random.example.com", Balancing: "Random"}}
	warnings, err := w.warned(func(c client.Client) error { return c.Create(ctx, proxy) })
	if err != nil {
		return err
	}
	if len(warnings) != 1 || warnings[0] != "spec.balancing: Random is not available any more, RoundRobin is used" {
		return fmt.Errorf("the warnings are %q", warnings)
	}
	random := func(v1Value string, others v1beta1.Balancing) error {
		want := specsOf("random.example.com", 80, 100, v1Value, 2)
		want.Beta.Balancing, want.Alpha.Balancing = others, v1alpha1.Balancing(others)
		return w.read(ctx, name, want)
	}
	if err := random("RoundRobin", "Random"); err != nil {
		return err
	}
	if err := w.patch(ctx, &v1.Proxy{ObjectMeta: named(name)}, `{"spec":{"retries":{"attempts":2}}}`); err != nil {
		return err
	}
	if err := random("RoundRobin", "Random"); err != nil {
		return err
	}
	for _, balancing := range []string{"LeastConnections", "RoundRobin"} {
		body := fmt.Sprintf(`{"spec":{"balancing":%q}}`, balancing)
		if err := w.patch(ctx, &v1.Proxy{ObjectMeta: named(name)}, body); err != nil {
			return err
		}
		if err := random(balancing, v1beta1.Balancing(balancing)); err != nil {
			return err
		}
	}
	err = w.patch(ctx, &v1.Proxy{ObjectMeta: named(name)}, `{"spec":{"balancing":"Random"}}`)
	return refused(err, `spec.balancing: Unsupported value: "Random"`)
}

// warned returns the warnings of the API server for requests.
func (w *world) warned(requests func(client.Client) error) ([]string, error) {
	var all warnings
	cfg := rest.CopyConfig(w.Config)
	cfg.WarningHandler = &all
	c, err := client.New(cfg, client.Options{Scheme: w.Client.Scheme()})
	if err != nil {
		return nil, err
	}
	err = requests(c)
	return all, err
}

// warnings is a rest.WarningHandler for requests that are made one after the other.
type warnings []string

func (w *warnings) HandleWarningHeader(_ int, _, text string) { *w = append(*w, text) }

// refused returns an error if err is not the error of an invalid object with those texts.
func refused(err error, texts ...string) error {
	if !apierrors.IsInvalid(err) {
		return fmt.Errorf("the API server answered %v", err)
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			return fmt.Errorf("%q is not in %w", text, err)
		}
	}
	return nil
}

// invalid creates invalid Proxies in all versions, and changes one that was invalid before.
func (w *world) invalid(ctx context.Context) error {
	alpha := &v1alpha1.Proxy{ObjectMeta: named("invalid"), Spec: v1alpha1.ProxySpec{Target: "Bad_Host:0", Connections: new(int32(-1))}}
	err := w.Client.Create(ctx, alpha)
	if err := refused(err, `spec.target: Invalid value: "Bad_Host"`, `spec.target: Invalid value: 0`,
		"spec.connections: Invalid value: -1"); err != nil {
		return err
	}
	alpha = &v1alpha1.Proxy{ObjectMeta: named("invalid"), Spec: v1alpha1.ProxySpec{Target: "host"}}
	alpha.Annotations = map[string]string{v1.RetriesAnnotation: "often"}
	err = w.Client.Create(ctx, alpha)
	if err := refused(err, "metadata.annotations["+v1.RetriesAnnotation+`]: Invalid value: "often"`); err != nil {
		return err
	}
	beta := &v1beta1.Proxy{ObjectMeta: named("invalid"), Spec: v1beta1.ProxySpec{Host: "Bad_Host", Connections: new(int32(0))}}
	err = w.Client.Create(ctx, beta)
	if err := refused(err, `spec.host: Invalid value: "Bad_Host"`, "spec.connections: Invalid value: 0"); err != nil {
		return err
	}
	// What the schema of v1 says is checked before the webhook is asked.
	hub := &v1.Proxy{ObjectMeta: named("invalid"), Spec: v1.ProxySpec{Host: "host", MaxConnections: new(int32(0))}}
	if err := refused(w.Client.Create(ctx, hub), "spec.maxConnections: Invalid value: 0"); err != nil {
		return err
	}
	err = w.Client.Get(ctx, client.ObjectKeyFromObject(hub), hub)
	if !apierrors.IsNotFound(err) {
		return fmt.Errorf("a Proxy was created: %v", err)
	}
	// What was invalid when it was migrated can be changed, but not for something else that is invalid.
	if err := w.patch(ctx, &v1.Proxy{ObjectMeta: named(legacy)}, `{"spec":{"maxConnections":50}}`); err != nil {
		return err
	}
	return refused(w.patch(ctx, &v1alpha1.Proxy{ObjectMeta: named(legacy)}, `{"spec":{"connections":0}}`), "spec.connections")
}

func (w *world) immutable(ctx context.Context) error {
	const name = "in-v1"
	err := w.patch(ctx, &v1alpha1.Proxy{ObjectMeta: named(name)}, `{"spec":{"target":"other.example.com:8443"}}`)
	if err := refused(err, "spec.target: Invalid value", "field is immutable"); err != nil {
		return err
	}
	for _, proxy := range []client.Object{&v1beta1.Proxy{ObjectMeta: named(name)}, &v1.Proxy{ObjectMeta: named(name)}} {
		err := w.patch(ctx, proxy, `{"spec":{"host":"other.example.com"}}`)
		if err := refused(err, "spec.host: Invalid value", "field is immutable"); err != nil {
			return err
		}
	}
	// The target of v1alpha1 is two fields of the hub, and only one of them is immutable.
	return w.patch(ctx, &v1alpha1.Proxy{ObjectMeta: named(name)}, `{"spec":{"target":"in-v1.example.com:8444"}}`)
}

// oldVersion gets tables, as kubectl does.
func (w *world) oldVersion(ctx context.Context) error {
	d, err := discovery.NewDiscoveryClientForConfig(w.Config)
	if err != nil {
		return err
	}
	for version, want := range map[string][]string{
		"v1alpha1": {"Name", "Target", "Age"},
		"v1beta1":  {"Name", "Host", "Port", "Age"},
		"v1":       {"Name", "Host", "Port", "Balancing", "Ready", "Age"},
	} {
		body, err := d.RESTClient().Get().AbsPath("/apis/net.example.com", version, "namespaces", example.Namespace, "proxies", "in-v1").
			SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").DoRaw(ctx)
		if err != nil {
			return err
		}
		table := &metav1.Table{}
		if err := json.Unmarshal(body, table); err != nil {
			return err
		}
		var names []string
		for _, column := range table.ColumnDefinitions {
			names = append(names, column.Name)
		}
		if !slices.Equal(names, want) {
			return fmt.Errorf("%s has the columns %v", version, names)
		}
		if cell := table.Rows[0].Cells[1]; version == "v1alpha1" && cell != "in-v1.example.com:8444" {
			return fmt.Errorf("the target is %v", cell)
		}
	}
	warnings, err := w.warned(func(c client.Client) error {
		return errors.Join(w.get(ctx, c, &v1alpha1.Proxy{}), w.get(ctx, c, &v1beta1.Proxy{}), w.get(ctx, c, &v1.Proxy{}))
	})
	if err == nil && (len(warnings) != 1 || !strings.Contains(warnings[0], "v1alpha1 Proxy is deprecated and will be removed")) {
		err = fmt.Errorf("the warnings are %q", warnings)
	}
	return err
}

// get reads a Proxy.
func (w *world) get(ctx context.Context, c client.Client, into client.Object) error {
	return c.Get(ctx, client.ObjectKey{Namespace: example.Namespace, Name: "in-v1"}, into)
}

// watched creates a Proxy in v1 and waits for its event in v1alpha1.
func (w *world) watched(ctx context.Context) error {
	list := &v1alpha1.ProxyList{}
	if err := w.list(ctx, list); err != nil {
		return err
	}
	events, err := w.Client.Watch(ctx, &v1alpha1.ProxyList{}, client.InNamespace(example.Namespace),
		&client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: list.ResourceVersion}})
	if err != nil {
		return err
	}
	defer events.Stop()
	proxy := &v1.Proxy{ObjectMeta: named("watched"), Spec: v1.ProxySpec{Host: "watched.example.com", Port: new(int32(81))}}
	if err := w.Client.Create(ctx, proxy); err != nil {
		return err
	}
	for {
		select {
		case event, ok := <-events.ResultChan():
			if !ok {
				return errors.New("the watch has ended")
			}
			got, ok := event.Object.(*v1alpha1.Proxy)
			if !ok {
				return fmt.Errorf("the event is %+v", event)
			}
			if got.Name != proxy.Name {
				continue // of the steps before
			}
			if event.Type != watch.Added || got.Spec.Target != "watched.example.com:81" {
				return fmt.Errorf("the event is %s %+v", event.Type, got)
			}
			return nil
		case <-ctx.Done():
			return errors.New("there was no event")
		}
	}
}

// configMaps deletes the ConfigMap of a Proxy. Then it takes the name of another ConfigMap before it
// creates the Proxy for it.
func (w *world) configMaps(ctx context.Context) error {
	cm := &corev1.ConfigMap{}
	key := client.ObjectKey{Namespace: example.Namespace, Name: "in-v1alpha1-proxy"}
	if err := w.Client.Get(ctx, key, cm); err != nil {
		return err
	}
	if err := w.Client.Delete(ctx, cm); err != nil {
		return err
	}
	if err := await.Until(ctx, w.Client, &corev1.ConfigMapList{}, func(all []*corev1.ConfigMap) string {
		for _, again := range all {
			if again.Name == cm.Name && again.UID != cm.UID && maps.Equal(again.Data, cm.Data) {
				return ""
			}
		}
		return "the ConfigMap was not created again"
	}, client.InNamespace(example.Namespace)); err != nil {
		return err
	}
	theirs := &corev1.ConfigMap{ObjectMeta: named("theirs-proxy")}
	if err := w.Client.Create(ctx, theirs); err != nil {
		return err
	}
	proxy := &v1beta1.Proxy{ObjectMeta: named("theirs"), Spec: v1beta1.ProxySpec{Host: "theirs.example.com"}}
	if err := w.Client.Create(ctx, proxy); err != nil {
		return err
	}
	if err := w.condition(ctx, "theirs", metav1.ConditionFalse, controller.ReasonNameTaken); err != nil {
		return err
	}
	before := theirs.ResourceVersion
	if err := w.Client.Get(ctx, client.ObjectKeyFromObject(theirs), theirs); err != nil {
		return err
	}
	if theirs.ResourceVersion != before {
		return errors.New("the ConfigMap of somebody else was changed")
	}
	return nil
}
