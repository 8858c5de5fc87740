package v1_test

import (
	"encoding/json"
	"maps"
	"math/rand"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/randfill"

	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/conversion"
	v1 "flyball.dev/examples/versions/api/v1"
	"flyball.dev/examples/versions/api/v1alpha1"
	"flyball.dev/examples/versions/api/v1beta1"
)

// rounds is the number of random objects of each test.
const rounds = 300

// fuzzer returns a source of random objects, of content that the API accepts: hosts without a colon
// in v1beta1 and v1, values of enumerations, and no annotations of the conversion. Targets of v1alpha1
// are arbitrary strings, which is what its schema accepts.
func fuzzer(seed int64) *randfill.Filler {
	host := func(c randfill.Continue) string { return strings.ReplaceAll(c.String(0), ":", ".") }
	balancing := func(c randfill.Continue, values ...string) string {
		return append(values, "")[c.Intn(len(values)+1)]
	}
	return randfill.NewWithSeed(seed).NilChance(0.3).NumElements(0, 3).Funcs(
		func(m *metav1.ObjectMeta, c randfill.Continue) {
			m.Name, m.Namespace = c.String(0), c.String(0)
			c.Fill(&m.Labels)
			c.Fill(&m.Annotations)
			c.Fill(&m.Finalizers)
			c.Fill(&m.OwnerReferences)
			m.Generation = c.Int63()
		},
		func(t *metav1.TypeMeta, _ randfill.Continue) { *t = metav1.TypeMeta{} },
		func(t *metav1.Time, c randfill.Continue) { *t = metav1.Unix(c.Int63n(1<<32), 0) },
		func(s *v1alpha1.ProxySpec, c randfill.Continue) {
			c.FillNoCustom(s)
			if c.Bool() {
				s.Target += ":" + []string{"80", "080", "+80", "-80", "0", "", "65536", "99999999999", "http", "::1"}[c.Intn(10)]
			}
			s.Balancing = v1alpha1.Balancing(balancing(c, "RoundRobin", "LeastConnections", "Random"))
		},
		func(s *v1beta1.ProxySpec, c randfill.Continue) {
			c.FillNoCustom(s)
			s.Host = host(c)
			s.Balancing = v1beta1.Balancing(balancing(c, "RoundRobin", "LeastConnections", "Random"))
		},
		func(s *v1.ProxySpec, c randfill.Continue) {
			c.FillNoCustom(s)
			s.Host = host(c)
			s.Balancing = v1.Balancing(balancing(c, "RoundRobin", "LeastConnections"))
		},
	)
}

// convert converts src to the type of dst, by way of the hub if neither is the hub, as the webhook
// does: what it sends is encoded as JSON in between.
func convert[T client.Object](t *testing.T, src client.Object, dst T) T {
	t.Helper()
	hub, ok := src.(*v1.Proxy)
	if !ok {
		hub = &v1.Proxy{}
		if err := src.(conversion.Convertible).ConvertTo(hub); err != nil {
			t.Fatal(err)
		}
	}
	var out runtime.Object = hub
	if spoke, ok := runtime.Object(dst).(conversion.Convertible); ok {
		if err := spoke.ConvertFrom(hub); err != nil {
			t.Fatal(err)
		}
		out = spoke
	}
	encoded, err := json.Marshal(out)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(encoded, dst); err != nil {
		t.Fatal(err)
	}
	return dst
}

// decoded returns an object as the API server sends it, with what JSON cannot express.
func decoded[T client.Object](t *testing.T, obj, into T) T {
	t.Helper()
	encoded, err := json.Marshal(obj)
	if err == nil {
		err = json.Unmarshal(encoded, into)
	}
	if err != nil {
		t.Fatal(err)
	}
	return into
}

func check(t *testing.T, want, got client.Object) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Fatalf("want -, got +:\n%s", diff)
	}
}

// TestRoundTrips converts random objects from each version to each other one and back, and around
// through all of them.
func TestRoundTrips(t *testing.T) {
	fill := fuzzer(rand.Int63())
	for range rounds {
		var a v1alpha1.Proxy
		fill.Fill(&a)
		alpha := decoded(t, &a, &v1alpha1.Proxy{})
		before := alpha.DeepCopy()
		check(t, before, convert(t, convert(t, alpha, &v1.Proxy{}), &v1alpha1.Proxy{}))
		check(t, before, convert(t, convert(t, alpha, &v1beta1.Proxy{}), &v1alpha1.Proxy{}))
		check(t, before, alpha) // conversion does not change its source

		var b v1beta1.Proxy
		fill.Fill(&b)
		beta := decoded(t, &b, &v1beta1.Proxy{})
		check(t, beta, convert(t, convert(t, beta, &v1.Proxy{}), &v1beta1.Proxy{}))
		check(t, beta, convert(t, convert(t, beta, &v1alpha1.Proxy{}), &v1beta1.Proxy{}))

		var h v1.Proxy
		fill.Fill(&h)
		hub := decoded(t, &h, &v1.Proxy{})
		beforeHub := hub.DeepCopy()
		check(t, hub, convert(t, convert(t, hub, &v1alpha1.Proxy{}), &v1.Proxy{}))
		check(t, hub, convert(t, convert(t, hub, &v1beta1.Proxy{}), &v1.Proxy{}))
		check(t, hub, convert(t, convert(t, convert(t, hub, &v1alpha1.Proxy{}), &v1beta1.Proxy{}), &v1.Proxy{}))
		check(t, beforeHub, hub)
	}
}

// TestChangeInOldVersion changes a field in an older version: what that version does not have stays
// as it is in the hub.
func TestChangeInOldVersion(t *testing.T) {
	fill := fuzzer(rand.Int63())
	for range rounds {
		var h v1.Proxy
		fill.Fill(&h)
		hub := decoded(t, &h, &v1.Proxy{})
		want := hub.DeepCopy()
		want.Spec.MaxConnections = new(int32(42))

		alpha := convert(t, hub, &v1alpha1.Proxy{})
		alpha.Spec.Connections = new(int32(42))
		check(t, want, convert(t, alpha, &v1.Proxy{}))

		beta := convert(t, hub, &v1beta1.Proxy{})
		beta.Spec.Connections = new(int32(42))
		check(t, want, convert(t, beta, &v1.Proxy{}))
	}
}

// TestConversions has the cases where the versions differ.
func TestConversions(t *testing.T) {
	port := func(n int32) *int32 { return &n }
	for _, tt := range []struct {
		name  string
		alpha v1alpha1.Proxy
		hub   v1.Proxy
	}{
		{"a port", alphaProxy("host:8080", "", nil), hubProxy("host", port(8080), "", nil, nil)},
		{"no port", alphaProxy("host", "", nil), hubProxy("host", nil, "", nil, nil)},
		{"not canonical", alphaProxy("host:080", "", nil), hubProxy("host:080", nil, "", nil, nil)},
		{"a name", alphaProxy("host:http", "", nil), hubProxy("host:http", nil, "", nil, nil)},
		{"an address", alphaProxy("[::1]:80", "", nil), hubProxy("[::1]", port(80), "", nil, nil)},
		{"a removed value", alphaProxy("host", "Random", nil),
			hubProxy("host", nil, "RoundRobin", nil, map[string]string{v1.BalancingAnnotation: "Random"})},
		{"retries", alphaProxy("host", "", map[string]string{v1.RetriesAnnotation: `{"attempts":3}`}),
			hubProxy("host", nil, "", &v1.Retries{Attempts: 3}, nil)},
		{"retries that cannot be decoded", alphaProxy("host", "", map[string]string{v1.RetriesAnnotation: "often"}),
			hubProxy("host", nil, "", nil, map[string]string{v1.RetriesAnnotation: "often"})},
	} {
		t.Run(tt.name, func(t *testing.T) {
			check(t, &tt.hub, convert(t, &tt.alpha, &v1.Proxy{}))
			check(t, &tt.alpha, convert(t, &tt.hub, &v1alpha1.Proxy{}))
		})
	}
}

// TestStaleBalancing checks that the annotation of a removed value has no effect any more when
// another value is set in the hub.
func TestStaleBalancing(t *testing.T) {
	hub := hubProxy("host", nil, v1.BalancingLeastConnections, nil, map[string]string{v1.BalancingAnnotation: "Random"})
	beta := convert(t, &hub, &v1beta1.Proxy{})
	if beta.Spec.Balancing != v1beta1.BalancingLeastConnections || len(beta.Annotations) != 0 {
		t.Errorf("got %+v", beta)
	}
}

func alphaProxy(target string, balancing v1alpha1.Balancing, annotations map[string]string) v1alpha1.Proxy {
	return v1alpha1.Proxy{ObjectMeta: metav1.ObjectMeta{Name: "p", Annotations: maps.Clone(annotations)},
		Spec: v1alpha1.ProxySpec{Target: target, Balancing: balancing}}
}

func hubProxy(host string, port *int32, balancing v1.Balancing, retries *v1.Retries, annotations map[string]string) v1.Proxy {
	return v1.Proxy{ObjectMeta: metav1.ObjectMeta{Name: "p", Annotations: maps.Clone(annotations)},
		Spec: v1.ProxySpec{Host: host, Port: port, Balancing: balancing, Retries: retries}}
}
