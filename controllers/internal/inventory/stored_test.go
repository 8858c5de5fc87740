package inventory_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"flyball.dev/controllers"
	"flyball.dev/controllers/internal/inventory"
	"flyball.dev/controlplane"
	"flyball.dev/controlplane/controllerstest"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/manager"
	"flyball.dev/internal/inprocess"
)

func TestMain(m *testing.M) { controllerstest.Main(m) }

// known is a handler that keeps what the garbage collector keeps, in the simplest form: a map of all objects. Objects that may have
// been deleted without OnDelete are gone when their monitor has synced.
type known struct {
	mu         sync.Mutex
	objects    map[types.UID]string
	kinds      map[types.UID]schema.GroupKind
	unverified map[types.UID]bool
	calls      []string // of ConfigMaps
}

func newKnown() *known {
	return &known{objects: map[types.UID]string{}, kinds: map[types.UID]schema.GroupKind{}, unverified: map[types.UID]bool{}}
}

func (k *known) OnUpdate(r inventory.Resource, m *metav1.PartialObjectMetadata) {
	k.mu.Lock()
	defer k.mu.Unlock()
	owners := ""
	for _, ref := range m.OwnerReferences {
		owners += " " + ref.String()
	}
	k.objects[m.UID] = fmt.Sprintf("%s %s/%s %s deleting %v finalizers %q owners%s", r.Kind, m.Namespace, m.Name, m.ResourceVersion,
		m.DeletionTimestamp != nil, m.Finalizers, owners)
	k.kinds[m.UID] = r.Kind.GroupKind()
	delete(k.unverified, m.UID)
	if r.Kind.Kind == "ConfigMap" {
		k.calls = append(k.calls, k.objects[m.UID])
	}
}

func (k *known) OnDelete(r inventory.Resource, m *metav1.PartialObjectMetadata) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.objects, m.UID)
	if r.Kind.Kind == "ConfigMap" {
		k.calls = append(k.calls, "deleted "+m.Name)
	}
}

func (k *known) MonitorStarted(r inventory.Resource) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for uid := range k.objects {
		if k.kinds[uid] == r.Kind.GroupKind() {
			k.unverified[uid] = true
		}
	}
}

func (k *known) MonitorSynced(r inventory.Resource) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for uid := range k.unverified {
		if k.kinds[uid] == r.Kind.GroupKind() {
			delete(k.objects, uid)
			delete(k.unverified, uid)
		}
	}
}

func (k *known) ResourcesChanged() {}

// all returns the objects that exist, but for Leases, which change all the time.
func (k *known) all() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.DeleteFunc(slices.Sorted(maps.Values(k.objects)), func(o string) bool { return strings.Contains(o, "Kind=Lease ") })
}

// watching is a transport that has no observer, so that an inventory has informers.
type watching struct{ http.RoundTripper }

// start starts an inventory with a handler. With informers, it has no stream.
func start(e controllerstest.Env, informers bool) *known {
	e.Helper()
	config := e.ConfigFor(controllers.ManagerIdentity)
	if informers {
		config.Transport = watching{config.Transport}
	}
	if has := inprocess.ObserverOf(config) != nil; has == informers {
		e.Fatalf("with informers %v, there is an observer: %v", informers, has)
	}
	mgr, err := manager.New(config, e.ManagerOptions())
	e.Must(err)
	i, err := inventory.New(mgr)
	e.Must(err)
	k := newKnown()
	i.AddHandler(k)
	ctx, cancel := context.WithCancel(e.Context())
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	e.Cleanup(func() {
		cancel()
		<-done
	})
	return k
}

// TestStreamAsInformers makes random changes, and compares what an inventory with a stream knows with what one with informers
// knows: of built-in and custom kinds, while kinds and versions come and go, and after the history was lost.
func TestStreamAsInformers(t *testing.T) {
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			options := controlplane.Options{Controllers: controllerstest.OnlyGC}
			if seed == 3 {
				options.DataDir = t.TempDir()
			}
			controllerstest.WithControlPlane(t, options, func(e controllerstest.Env) {
				r := rand.New(rand.NewPCG(seed, 3))
				streamed, informed := start(e, false), start(e, true)
				e.WaitIdle()
				compare(e, streamed, informed, "at the start")
				if seed != 3 {
					e.Must(e.Plane.Checkpoint())
				}
				for step := range 12 {
					change := randomChange(e, r, seed != 3)
					e.WaitIdle()
					compare(e, streamed, informed, fmt.Sprintf("step %d: %s", step, change))
				}
			})
		})
	}
}

func compare(e controllerstest.Env, streamed, informed *known, when string) {
	e.Helper()
	if d := cmp.Diff(informed.all(), streamed.all()); d != "" || len(streamed.all()) < 50 {
		e.Fatalf("%s: %d objects; -informers +stream:\n%s", when, len(streamed.all()), d)
	}
}

// randomChange makes some changes, and returns what it has done.
func randomChange(e controllerstest.Env, r *rand.Rand, canReset bool) string {
	e.Helper()
	switch n := r.IntN(10); {
	case n < 5:
		for i := range 8 {
			cm := controllerstest.ConfigMap(fmt.Sprint("cm-", i))
			switch r.IntN(4) {
			case 0:
				e.Must(client.IgnoreAlreadyExists(e.Create(e.Context(), cm)))
			case 1:
				e.Must(client.IgnoreNotFound(e.Patch(e.Context(), cm, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"data":{"x":"%d"}}`, r.IntN(1000))))))
			case 2:
				finalizers := []string{`[]`, `["example.com/f"]`}[r.IntN(2)]
				e.Must(client.IgnoreNotFound(e.Patch(e.Context(), cm, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":`+finalizers+`}}`)))))
			case 3:
				e.Must(client.IgnoreNotFound(e.Delete(e.Context(), cm)))
			}
		}
		return "ConfigMaps"
	case n < 7:
		versions := [][]string{{"v1", "v2"}, {"-v1", "v2"}, {"-v1", "-v2"}, {"v2", "v1"}, {"v1", "-v2"}}[r.IntN(5)]
		e.DefineWidgets(versions...)
		return fmt.Sprint("widgets ", versions)
	case n < 8:
		_ = e.Create(e.Context(), controllerstest.Widget(fmt.Sprint("w-", r.IntN(5)))) // or else it exists, or its kind is not served
		return "a widget"
	case n < 9:
		e.Must(client.IgnoreNotFound(e.Delete(e.Context(), controllerstest.WidgetDefinition())))
		return "no widgets"
	case canReset:
		e.Must(e.Plane.Reset())
		return "reset"
	}
	return "nothing"
}

// TestOrder: the changes of a kind are passed on in their order, and each once.
func TestOrder(t *testing.T) {
	controllerstest.WithControlPlane(t, controlplane.Options{WithoutControllers: true}, func(e controllerstest.Env) {
		k := start(e, false)
		e.WaitIdle()
		var want []string
		cm := controllerstest.ConfigMap("x")
		e.CreateAll(cm)
		for i := range 50 {
			want = append(want, cm.ResourceVersion)
			cm.Data = map[string]string{"i": fmt.Sprint(i)}
			e.Must(e.Update(e.Context(), cm))
		}
		want = append(want, cm.ResourceVersion)
		e.Must(e.Delete(e.Context(), cm))
		e.WaitIdle()
		k.mu.Lock()
		defer k.mu.Unlock()
		var got []string
		for _, call := range k.calls {
			if strings.Contains(call, " default/x ") {
				got = append(got, strings.Fields(call)[3])
			}
		}
		if d := cmp.Diff(want, got); d != "" || k.calls[len(k.calls)-1] != "deleted x" {
			t.Errorf("the resource versions (-want +got):\n%s\nlast: %s", d, k.calls[len(k.calls)-1])
		}
	})
}

// TestPermissions: a user cannot add a resource to a stream without the permission to list and watch it, and the stream ends some
// time after the permission has.
func TestPermissions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		controllerstest.WithPlane(t, controlplane.Options{WithoutControllers: true}, func(e controllerstest.Env) {
			role := controllerstest.Kindless("ClusterRole", "rbac.authorization.k8s.io/v1")
			role.SetUID("")
			role.SetName("reader")
			role.Object["rules"] = []any{map[string]any{"apiGroups": []any{""}, "resources": []any{"configmaps"}, "verbs": []any{"list", "watch"}},
				map[string]any{"apiGroups": []any{""}, "resources": []any{"secrets"}, "verbs": []any{"list"}}}
			binding := controllerstest.Kindless("ClusterRoleBinding", "rbac.authorization.k8s.io/v1")
			binding.SetUID("")
			binding.SetName("reader")
			binding.Object["roleRef"] = map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "reader"}
			binding.Object["subjects"] = []any{map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "jane"}}
			e.CreateAll(role, binding, controllerstest.ConfigMap("before"))

			config, err := e.Plane.UserConfig("jane")
			e.Must(err)
			stream, err := inprocess.ObserverOf(config).Observe(e.Context())
			e.Must(err)
			defer stream.Close()
			var seen []string
			visit := func(m *metav1.PartialObjectMetadata) { seen = append(seen, m.Name) }
			for _, forbidden := range []string{"secrets", "pods"} {
				if err := stream.Add(e.Context(), corev1.SchemeGroupVersion.WithResource(forbidden), visit); err == nil || !strings.Contains(err.Error(), `User "jane" cannot`) {
					t.Errorf("%s: %v", forbidden, err)
				}
			}
			e.Must(stream.Add(e.Context(), corev1.SchemeGroupVersion.WithResource("configmaps"), visit))
			next := func() error {
				for {
					more, err := stream.Next(e.Context(), func(c inprocess.Change) { visit(c.Object) })
					if err != nil || !more {
						return err
					}
				}
			}
			e.CreateAll(controllerstest.ConfigMap("after"), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "secret"}})
			e.Must(next())
			if !slices.Contains(seen, "before") || seen[len(seen)-1] != "after" || slices.Contains(seen, "secret") {
				t.Errorf("jane has seen %q", seen)
			}
			e.Must(e.Delete(e.Context(), binding))
			e.Must(next())
			time.Sleep(11 * time.Minute) // of virtual time
			seen = nil
			e.CreateAll(controllerstest.ConfigMap("late"))
			if err := next(); err == nil || len(seen) > 0 {
				t.Errorf("jane has lost her permission, and sees %v; error %v", seen, err)
			}
		})
	})
}

// TestCredentials: a configuration with other credentials than its transport has no observer.
func TestCredentials(t *testing.T) {
	controllerstest.WithControlPlane(t, controlplane.Options{WithoutControllers: true}, func(e controllerstest.Env) {
		config := e.Plane.Config()
		if inprocess.ObserverOf(config) == nil {
			t.Fatal("there is no observer")
		}
		config.Impersonate.UserName = "jane"
		if inprocess.ObserverOf(config) != nil {
			t.Error("there is an observer for a user who is impersonated")
		}
	})
}
