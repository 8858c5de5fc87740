package builtin

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/randfill"
)

func TestEventConversion(t *testing.T) {
	for seed := range 200 {
		filler := randfill.NewWithSeed(int64(seed)).NilChance(0.3).NumElements(0, 2).Funcs(fills...)
		var there eventsv1.EventList
		var list, back corev1.EventList
		filler.Fill(&list)
		list.TypeMeta = metav1.TypeMeta{}
		for i := range list.Items {
			list.Items[i].TypeMeta = metav1.TypeMeta{}
		}
		if err := Scheme().Convert(&list, &there, nil); err != nil {
			t.Fatal(err)
		}
		if err := Scheme().Convert(&there, &back, nil); err != nil {
			t.Fatal(err)
		}
		if list.Items == nil {
			list.Items = []corev1.Event{}
		}
		if d := cmp.Diff(list, back); d != "" {
			t.Fatalf("there and back (-was +is):\n%s", d)
		}
	}
}
