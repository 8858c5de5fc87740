package managedfields

import (
	"context"
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"

	"flyball.dev/apiserver/schema"
)

// askedContext is a context that is asked for its error, and ends at the given question.
type askedContext struct {
	context.Context
	asked, end int
}

func (c *askedContext) Err() error {
	if c.asked++; c.end > 0 && c.asked >= c.end {
		return context.Canceled
	}
	return nil
}

// TestApplyToLongListsIsLinear counts the elements that an apply looks at. An apply asks the context once for each
// element.
func TestApplyToLongListsIsLinear(t *testing.T) {
	const variables = 2000
	updater := ForType(reflect.TypeFor[corev1.Pod](), "v1", nil)
	live, config := appliedPod(t, variables)
	ctx := &askedContext{Context: t.Context()}
	if _, ok := updater.Apply(ctx, live, config, byApplier, true); !ok {
		t.Fatal("not applied")
	}
	if ctx.asked < variables || ctx.asked > 4*variables {
		t.Errorf("an apply of %d variables asked the context %d times", variables, ctx.asked)
	}
}

// TestApplyEndsWithItsContext ends the context early, within the merge and after it.
func TestApplyEndsWithItsContext(t *testing.T) {
	const variables = 100
	live, config := appliedPod(t, variables)
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(live)
	if err != nil {
		t.Fatal(err)
	}
	typed, custom := ForType(reflect.TypeFor[corev1.Pod](), "v1", nil), ForUnstructured(schema.TypeConverter(scheme.Scheme), podKind, nil)
	for _, end := range []int{1, 2, 3, variables} {
		ctx := &askedContext{Context: t.Context(), end: end}
		if _, ok := typed.Apply(ctx, live, config, byApplier, true); ok || ctx.asked > end+5 {
			t.Errorf("a context that ended at question %d was asked %d times; applied: %t", end, ctx.asked, ok)
		}
		if end > 3 {
			continue
		}
		ctx = &askedContext{Context: t.Context(), end: end}
		if _, ok := custom.Apply(ctx, &unstructured.Unstructured{Object: content}, config, byApplier, true); ok {
			t.Errorf("unstructured: a context that ended at question %d; applied: %t", end, ok)
		}
	}
}
