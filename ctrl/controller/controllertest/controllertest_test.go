package controllertest

import (
	"context"
	"encoding/json"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

func TestQueue(t *testing.T) {
	q := &TypedQueue[string]{TypedInterface: workqueue.NewTyped[string]()}
	q.AddAfter("later", time.Hour)
	q.AddRateLimited("limited")
	q.AddRateLimited("limited")
	for _, want := range []string{"later", "limited"} {
		got, shutdown := q.Get()
		if got != want || shutdown {
			t.Errorf("Get returned %q, %v; want %q", got, shutdown, want)
		}
		q.Forget(got)
		q.Done(got)
	}
	if q.Len() != 0 || q.NumRequeues("limited") != 0 {
		t.Errorf("%d items are left, %d requeues", q.Len(), q.NumRequeues("limited"))
	}
	if !slices.Equal(q.AddedRatelimited, []any{"limited", "limited"}) {
		t.Errorf("AddedRatelimited is %v", q.AddedRatelimited)
	}
	q.ShutDown()
}

func TestFakeInformer(t *testing.T) {
	for name, f := range map[string]*FakeInformer{"new": NewFakeInformer(), "zero": {}} {
		var events []string
		handler := toolscache.ResourceEventHandlerDetailedFuncs{
			AddFunc: func(obj any, initial bool) {
				if initial {
					t.Error("an added object is in the initial list")
				}
				events = append(events, "add "+obj.(*corev1.Pod).Name)
			},
			UpdateFunc: func(o, n any) { events = append(events, "update "+o.(*corev1.Pod).Name+" "+n.(*corev1.Pod).Name) },
			DeleteFunc: func(obj any) { events = append(events, "delete "+obj.(*corev1.Pod).Name) },
		}
		first, err := f.AddEventHandler(handler)
		if err != nil {
			t.Fatal(err)
		}
		second, err := f.AddEventHandlerWithResyncPeriod(handler, time.Second)
		if err != nil {
			t.Fatal(err)
		}
		a, b := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "b"}}
		f.Add(a)
		if err := f.RemoveEventHandler(second); err != nil {
			t.Fatal(err)
		}
		f.Update(a, b)
		f.Delete(b)
		if want := []string{"add a", "add a", "update a b", "delete b"}; !slices.Equal(events, want) {
			t.Errorf("%s: the handlers got %q, want %q", name, events, want)
		}
		if f.HasSynced() || first.HasSynced() {
			t.Errorf("%s: it has synced", name)
		}
		f.Synced()
		f.Synced()
		if !f.HasSynced() || !first.HasSynced() {
			t.Errorf("%s: it has not synced", name)
		}
		<-f.Done()
		<-first.HasSyncedChecker().Done()
		f.Run(nil)
		f.RunWithContext(context.Background())
		if f.RunCount != 2 {
			t.Errorf("%s: RunCount is %d", name, f.RunCount)
		}
	}
	if !NewFakeInformer(Synced).HasSynced() {
		t.Error("an informer made with Synced has not synced")
	}
}

func TestUnconventionalList(t *testing.T) {
	list := &UnconventionalListTypeList{Items: []*UnconventionalListType{{
		ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{"k": "v"}}, Spec: "s",
	}}}
	before, err := json.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	c := list.DeepCopyObject().(*UnconventionalListTypeList)
	if got, _ := json.Marshal(c); string(got) != string(before) {
		t.Errorf("the copy is %s", got)
	}
	c.Items[0].Labels["k"], c.Items[0].Spec = "changed", "changed"
	if after, _ := json.Marshal(list); string(after) != string(before) {
		t.Errorf("a change of the copy changes the list: %s", after)
	}
}
