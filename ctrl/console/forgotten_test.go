package console

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/internal/cause"
	"flyball.dev/ctrl/internal/observe"
)

// fakeClient is a client of ConfigMaps. Each write writes the next version.
type fakeClient struct {
	client.Client
	version int
}

func (c *fakeClient) GroupVersionKindFor(runtime.Object) (schema.GroupVersionKind, error) {
	return configMaps, nil
}

func (c *fakeClient) Update(_ context.Context, obj client.Object, _ ...client.UpdateOption) error {
	c.version++
	obj.SetResourceVersion(fmt.Sprint(c.version))
	return nil
}

func (c *fakeClient) Delete(context.Context, client.Object, ...client.DeleteOption) error {
	c.version++
	return nil
}

func (c *fakeClient) DeleteAllOf(context.Context, client.Object, ...client.DeleteAllOfOption) error {
	return nil
}

// history is a console with a record of reconciles that a test makes up.
type history struct {
	*Console
	fake   *fakeClient
	client client.Client
}

func newHistory(limit int64) *history {
	r := observe.New(limit)
	h := &history{Console: &Console{recorder: r}, fake: &fakeClient{version: 100}}
	h.client = r.Client(h.fake, client.Options{})
	return h
}

// worker returns a worker of a controller of its own.
func (h *history) worker(name string) *observe.Worker {
	return h.recorder.AddController(fakeControls{name: name}).NewWorker()
}

// run records a reconcile because of a cause, which calls do.
func (h *history) run(w *observe.Worker, why cause.Cause, do func(ctx context.Context)) *observe.Run {
	run := w.Begin(types.NamespacedName{Namespace: "default", Name: "x"}, nil, cause.Causes{List: []cause.Cause{why}, Total: 1}, 0, time.Now())
	do(context.WithValue(context.Background(), observe.RunKey{}, run))
	w.End(run, observe.Outcome{Result: "success"}, false)
	return run
}

func idly(context.Context) {}

func configMap(name, uid string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(uid)}}
}

// eventOf is the event of a version of a ConfigMap.
func eventOf(kind cause.Kind, name, uid, version string) cause.Cause {
	obj := configMap(name, uid)
	obj.ResourceVersion = version
	obj.APIVersion, obj.Kind = configMaps.ToAPIVersionAndKind()
	return cause.Of(kind, obj)
}

// by returns who wrote the version of the cause of a reconcile, as its page and its chain say.
func (h *history) by(t *testing.T, run *observe.Run) string {
	t.Helper()
	own := h.summary(run.Copy(), h.origins()).Causes[0]
	chain, ok := h.chain(run.ID)
	if !ok {
		t.Fatal("the reconcile has no chain")
	}
	if own.By != byReconcile && chain.Root.By != own.By {
		t.Errorf("the page says that it was %s, and the chain that it was %s", own.By, chain.Root.By)
	}
	if (own.Origin != nil) != (own.By == byReconcile) {
		t.Errorf("by %s: the origin is %+v", own.By, own.Origin)
	}
	return own.By
}

// packed reports whether the record of a reconcile is packed.
func (h *history) packed(t *testing.T, id uint64) bool {
	t.Helper()
	for _, run := range h.recorder.Runs() {
		if run.ID == id {
			return run.Packed
		}
	}
	t.Fatalf("reconcile %d is not recorded", id)
	return false
}

// TestForgottenOrigin: if the reconcile that wrote a version is evicted, the version is not somebody else's, but a later version
// is.
func TestForgottenOrigin(t *testing.T) {
	h := newHistory(64 << 10)
	writer, reader := h.worker("writer"), h.worker("reader")
	first := h.run(writer, eventOf(cause.Created, "x", "u", "50"), func(ctx context.Context) { _ = h.client.Update(ctx, configMap("x", "u")) })
	effect := h.run(reader, eventOf(cause.Updated, "x", "u", "101"), idly)
	if by := h.by(t, effect); by != byReconcile {
		t.Errorf("before the eviction it is by %s", by)
	}
	if by := h.by(t, first); by != bySomebody {
		t.Errorf("what nobody wrote here is by %s", by)
	}
	for i := range 1000 { // of the other controller, which gives up its reconciles
		h.run(writer, eventOf(cause.Resync, "y", "v", "60"), func(ctx context.Context) {
			h.recorder.Logger(ctx.Value(observe.RunKey{}).(*observe.Run), logr.Discard()).Info(strings.Repeat("x", 1000))
		})
		if i == 100 {
			if !h.packed(t, first.ID) || h.by(t, effect) != byReconcile {
				t.Error("a reconcile that is packed is not an origin")
			}
		}
	}
	if by := h.by(t, effect); by != byForgotten {
		t.Errorf("after the eviction it is by %s", by)
	}
	if by := h.by(t, h.run(reader, eventOf(cause.Updated, "x", "u", "102"), idly)); by != bySomebody {
		t.Errorf("a version after the evicted ones is by %s", by)
	}
	if by := h.by(t, h.run(reader, eventOf(cause.Listed, "x", "u", "50"), idly)); by != "" {
		t.Errorf("what was listed is by %s", by)
	}
	if by := h.by(t, h.run(writer, cause.Cause{Kind: cause.Retry}, idly)); by != byReconcile {
		t.Errorf("a retry is by %s", by)
	}
	chain, _ := h.chain(effect.ID)
	if stats := h.recorder.Controllers()[0].Stats(); stats.Forgotten == 0 || chain.Forgotten != stats.Forgotten {
		t.Errorf("%d reconciles are forgotten, and the chain says %d", stats.Forgotten, chain.Forgotten)
	}
	key := h.key(h.recorder.Controllers()[0], "default/x", 10, ^uint64(0))
	if key.Forgotten == 0 {
		t.Errorf("the page of the request knows of no eviction")
	}
}

// TestDroppedWrites: a write that is not recorded, because there are too many, is not somebody else's.
func TestDroppedWrites(t *testing.T) {
	h := newHistory(0)
	w := h.worker("w")
	h.run(w, eventOf(cause.Created, "x", "u", "50"), func(ctx context.Context) {
		for range 300 {
			_ = h.client.Update(ctx, configMap("x", "u"))
		}
	})
	for version, want := range map[int]string{101: byReconcile, 356: byReconcile, 357: byForgotten, 400: byForgotten, 401: bySomebody} {
		if by := h.by(t, h.run(w, eventOf(cause.Updated, "x", "u", fmt.Sprint(version)), idly)); by != want {
			t.Errorf("version %d is by %s, want %s", version, by, want)
		}
	}
}

// TestDeletedBy finds the reconcile that deleted an object by the UID, not by the name.
func TestDeletedBy(t *testing.T) {
	t.Run("whole records", func(t *testing.T) { testDeletedBy(t, newHistory(0), false) })
	t.Run("packed records", func(t *testing.T) { testDeletedBy(t, newHistory(4<<10), true) })
}

func testDeletedBy(t *testing.T, h *history, packed bool) {
	w := h.worker("w")
	sure := func(uid string) client.DeleteOption { return client.Preconditions{UID: new(types.UID(uid))} }
	before := eventOf(cause.Deleted, "x", "first", "90")
	early := h.run(w, before, idly)
	h.run(w, eventOf(cause.Created, "x", "first", "50"), func(ctx context.Context) { _ = h.client.Delete(ctx, configMap("x", ""), sure("first")) })
	second := h.run(w, eventOf(cause.Created, "x", "second", "51"), func(ctx context.Context) { _ = h.client.Delete(ctx, configMap("x", ""), sure("second")) })
	h.run(w, eventOf(cause.Created, "n", "n", "52"), func(ctx context.Context) { _ = h.client.Delete(ctx, configMap("n", "")) })
	h.run(w, eventOf(cause.Created, "m", "m", "52"), func(ctx context.Context) {
		all := configMap("", "")
		_ = h.client.DeleteAllOf(ctx, all, client.InNamespace("other"))
	})
	if by := h.by(t, early); by != bySomebody {
		t.Errorf("a deletion before all others is by %s", by)
	}
	for _, c := range []struct{ name, uid, want string }{
		{"x", "first", byReconcile}, {"x", "second", byReconcile}, {"x", "third", bySomebody}, {"n", "n", byUnknown}, {"z", "z", bySomebody},
	} {
		run := h.run(w, eventOf(cause.Deleted, c.name, c.uid, "500"), idly)
		if by := h.by(t, run); by != c.want {
			t.Errorf("the deletion of %s %s is by %s, want %s", c.name, c.uid, by, c.want)
		}
		if c.uid == "second" && h.summary(run.Copy(), h.origins()).Causes[0].Origin.Reconcile != second.ID {
			t.Error("the deletion of the second object is another one's")
		}
	}
	other := eventOf(cause.Deleted, "x", "u", "500")
	other.Object.Namespace = "other"
	if by := h.by(t, h.run(w, other, idly)); by != byUnknown {
		t.Errorf("the deletion of an object of a collection is by %s", by)
	}
	if _, forgotten := h.recorder.Forgotten(); forgotten != 0 || h.packed(t, second.ID) != packed {
		t.Errorf("%d records are forgotten, and the second deletion is packed: %v", forgotten, h.packed(t, second.ID))
	}
}

// TestForgottenPages: the pages of a key and of a chain say that the origin is forgotten.
func TestForgottenPages(t *testing.T) {
	s := open(t, shopOptions{})
	own := s.console.recorder
	s.console.recorder = observe.New(64 << 10)
	defer func() { s.console.recorder = own }()
	h := &history{Console: s.console, fake: &fakeClient{version: 100}}
	h.client = h.recorder.Client(h.fake, client.Options{})
	writer, reader := h.worker("writer"), h.worker("reader")
	h.run(writer, cause.Cause{}, func(ctx context.Context) { _ = h.client.Update(ctx, configMap("x", "u")) })
	effect := h.run(reader, eventOf(cause.Updated, "x", "u", "101"), idly)
	for i := range 1000 {
		h.run(writer, cause.Cause{}, func(ctx context.Context) {
			h.recorder.Logger(ctx.Value(observe.RunKey{}).(*observe.Run), logr.Discard()).Info(strings.Repeat("x", 1000))
		})
		if i == 100 {
			page := s.get(t, "/console/reconcile?id=1")
			if !strings.Contains(page, "objects of an earlier reconcile are not recorded") || !strings.Contains(page, "Reads and log lines of an earlier reconcile are not recorded") {
				t.Errorf("the page of a packed record is %s", page)
			}
		}
	}
	for path, want := range map[string]string{
		"key?controller=reader&request=default/x": "who wrote it is forgotten", "key?controller=writer&request=default/x": "are forgotten",
		fmt.Sprint("chain?reconcile=", effect.ID): "Who wrote it is forgotten.",
	} {
		page := s.get(t, "/console/"+path)
		if !strings.Contains(page, want) || strings.Contains(page, "omebody else") {
			t.Errorf("%s has no %q: %s", path, want, page)
		}
	}
	if page := s.request(t, "GET", "/console/reconcile?id=1", nil, nil); page.Code != http.StatusNotFound || !strings.Contains(page.Body.String(), "the oldest are forgotten") {
		t.Errorf("an evicted reconcile: %d %s", page.Code, page.Body)
	}
}
