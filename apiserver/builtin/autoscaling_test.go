package builtin

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/randfill"
)

func convert[T any](t *testing.T, in any) *T {
	t.Helper()
	out := new(T)
	if err := Scheme().Convert(in, out, nil); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestAutoscalerRoundTrip converts random autoscalers to autoscaling/v1 and back.
func TestAutoscalerRoundTrip(t *testing.T) {
	fill := append([]any{
		func(q *resource.Quantity, c randfill.Continue) {
			*q = *resource.NewQuantity(1+c.Int63n(1000), resource.DecimalSI)
		},
		func(m *autoscalingv2.MetricTarget, c randfill.Continue) {
			n, q := 1+c.Int31n(100), resource.NewQuantity(1+c.Int63n(1000), resource.DecimalSI)
			*m = autoscalingv2.MetricTarget{Type: autoscalingv2.AverageValueMetricType, AverageValue: q}
			if c.Bool() {
				*m = autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: &n}
			}
		},
		func(m *autoscalingv2.MetricSpec, c randfill.Continue) {
			*m = autoscalingv2.MetricSpec{Type: autoscalingv2.ResourceMetricSourceType, Resource: &autoscalingv2.ResourceMetricSource{}}
			if c.Bool() {
				m.Type = autoscalingv2.ContainerResourceMetricSourceType
				m.Resource, m.ContainerResource = nil, &autoscalingv2.ContainerResourceMetricSource{}
				c.Fill(m.ContainerResource)
				return
			}
			c.Fill(m.Resource)
			m.Resource.Name = corev1.ResourceMemory
		},
		func(m *autoscalingv2.MetricStatus, c randfill.Continue) {
			n := 1 + c.Int31n(100)
			*m = autoscalingv2.MetricStatus{Type: autoscalingv2.ResourceMetricSourceType, Resource: &autoscalingv2.ResourceMetricStatus{
				Name:    corev1.ResourceCPU,
				Current: autoscalingv2.MetricValueStatus{AverageUtilization: &n, AverageValue: resource.NewQuantity(1, resource.DecimalSI)},
			}}
		},
	}, fills...)
	for seed := range 300 {
		filler := randfill.NewWithSeed(int64(seed)).NilChance(0.3).NumElements(1, 3).MaxDepth(12).Funcs(fill...)
		in := &autoscalingv2.HorizontalPodAutoscaler{}
		filler.Fill(in)
		n := int32(seed)
		if seed%2 == 0 {
			in.Spec.Metrics = append(in.Spec.Metrics, autoscalingv2.MetricSpec{Type: autoscalingv2.ResourceMetricSourceType, Resource: &autoscalingv2.ResourceMetricSource{
				Name: corev1.ResourceCPU, Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: &n}}})
		}
		if b := in.Spec.Behavior; b != nil && b.ScaleUp == nil && b.ScaleDown == nil {
			in.Spec.Behavior = nil // an empty behavior is dropped, as by kube-apiserver
		}
		if len(in.Spec.Metrics) == 0 {
			describeKindOf(t, in).call("Default", in)
		}
		in.TypeMeta.Kind, in.TypeMeta.APIVersion = "", ""
		untouched := in.DeepCopy()
		old := convert[autoscalingv1.HorizontalPodAutoscaler](t, in)
		if seed%2 == 0 && *old.Spec.TargetCPUUtilizationPercentage != n {
			t.Errorf("the target is %d, want %d", *old.Spec.TargetCPUUtilizationPercentage, n)
		}
		out := convert[autoscalingv2.HorizontalPodAutoscaler](t, old)
		if !apiequality.Semantic.DeepEqual(untouched, out) {
			t.Fatalf("seed %d: there and back (-in +out):\n%s", seed, cmp.Diff(untouched, out))
		}
		if !apiequality.Semantic.DeepEqual(untouched, in) {
			t.Fatalf("seed %d: the conversion changed its input", seed)
		}
		if again := convert[autoscalingv1.HorizontalPodAutoscaler](t, out); !apiequality.Semantic.DeepEqual(old, again) {
			t.Fatalf("seed %d: v1 (-first +second):\n%s", seed, cmp.Diff(old, again))
		}
	}
}

func TestAutoscalerWithBadAnnotations(t *testing.T) {
	in := &autoscalingv1.HorizontalPodAutoscaler{}
	in.Annotations = map[string]string{"autoscaling.alpha.kubernetes.io/metrics": "{", "autoscaling.alpha.kubernetes.io/behavior": "[]", "mine": "kept"}
	out := convert[autoscalingv2.HorizontalPodAutoscaler](t, in)
	if len(out.Spec.Metrics) != 1 || *out.Spec.Metrics[0].Resource.Target.AverageUtilization != 80 || out.Spec.Behavior != nil {
		t.Errorf("the spec is %+v", out.Spec)
	}
	if len(out.Annotations) != 1 || out.Annotations["mine"] != "kept" || len(in.Annotations) != 3 {
		t.Errorf("the annotations are %v", out.Annotations)
	}
}
