package client_test

import (
	"context"
	"slices"
	"testing"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/internal/overlay"
)

// writeObserver records the writes that it observes.
type writeObserver struct{ writes []string }

func (o *writeObserver) ObserveWrite(obj client.Object) {
	o.writes = append(o.writes, obj.GetName()+"@"+obj.GetResourceVersion())
}

// TestWritesAreObserved checks that the observer in the context is notified of writes, with and
// without a cache.
func TestWritesAreObserved(t *testing.T) {
	stored := pod("a", "x")
	stored.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
	stored.ResourceVersion, stored.UID = "5", "u"
	scale := &autoscalingv1.Scale{
		TypeMeta:   metav1.TypeMeta{APIVersion: "autoscaling/v1", Kind: "Scale"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "x", ResourceVersion: "6"},
	}
	list := &corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}}
	list.Items = []corev1.Pod{*stored, *pod("a", "y")}
	list.Items[1].ResourceVersion = "7"
	config := func() *corev1ac.PodApplyConfiguration { return corev1ac.Pod("x", "a") }
	for name, tt := range map[string]struct {
		write    func(ctx context.Context, c client.Client) error
		response any
		want     []string
	}{
		"create": {func(ctx context.Context, c client.Client) error {
			return c.Create(ctx, pod("a", "x"))
		}, stored, []string{"x@5"}},
		"update": {func(ctx context.Context, c client.Client) error {
			return c.Update(ctx, pod("a", "x"))
		}, stored, []string{"x@5"}},
		"patch": {func(ctx context.Context, c client.Client) error {
			return c.Patch(ctx, pod("a", "x"), client.Merge)
		}, stored, []string{"x@5"}},
		"apply": {func(ctx context.Context, c client.Client) error {
			return c.Apply(ctx, config())
		}, stored, []string{"x@5"}},
		"status apply": {func(ctx context.Context, c client.Client) error {
			return c.Status().Apply(ctx, config())
		}, stored, []string{"x@5"}},
		"scale apply": {func(ctx context.Context, c client.Client) error {
			return c.SubResource("scale").Apply(ctx, config())
		}, scale, []string{"x@6"}},
		"dry run of apply": {func(ctx context.Context, c client.Client) error {
			return c.Apply(ctx, config(), client.DryRunAll)
		}, stored, nil},
		"delete": {func(ctx context.Context, c client.Client) error {
			return c.Delete(ctx, stored.DeepCopy())
		}, stored, []string{"x@5"}},
		"delete of a collection": {func(ctx context.Context, c client.Client) error {
			return c.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace("a"))
		}, list, []string{"x@5", "y@7"}},
		"dry run of the delete of a collection": {func(ctx context.Context, c client.Client) error {
			return c.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace("a"), client.DryRunAll)
		}, list, nil},
	} {
		for cache, options := range map[string][]func(*client.Options){
			"without a cache": nil,
			"with a cache":    {cachedIn(&recorder{})},
		} {
			t.Run(name+" "+cache, func(t *testing.T) {
				o := &writeObserver{}
				ctx := context.WithValue(t.Context(), overlay.ObserverKey{}, o)
				if err := tt.write(ctx, newClient(t, responding(tt.response), options...)); err != nil {
					t.Fatal(err)
				}
				if !slices.Equal(o.writes, tt.want) {
					t.Errorf("observed %q, want %q", o.writes, tt.want)
				}
			})
		}
	}
}
