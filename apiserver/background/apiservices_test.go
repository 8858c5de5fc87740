package background

import (
	"testing"
	"testing/synctest"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"flyball.dev/apiserver/kinds/apiregistration"
)

// TestRegistrations checks the cases of checkAPIService of kube-aggregator: rows are the APIService
// that there is, columns the one that there should be.
func TestRegistrations(t *testing.T) {
	const none, unmanaged = "none", "unmanaged"
	gv := schema.GroupVersion{Group: "example.com", Version: "v1"}
	of := func(label string, priority int32) *apiregistrationv1.APIService {
		if label == none {
			return nil
		}
		a, _ := apiregistration.Local(gv)
		a.Spec.GroupPriorityMinimum = priority
		a.Labels = map[string]string{apiregistration.ManagedLabel: label}
		if label == unmanaged {
			a.Labels = nil
		}
		return a
	}
	for _, tt := range []struct {
		current string
		atStart bool
		synced  bool
		// the result for the APIService if the desired one is missing, managed on start, or managed
		want [3]string
	}{
		{none, false, false, [3]string{"", "created", "created"}},
		{none, false, true, [3]string{"", "", "created"}},
		{unmanaged, false, false, [3]string{"kept", "kept", "kept"}},
		{unmanaged, true, true, [3]string{"kept", "kept", "kept"}},
		{"onstart", false, false, [3]string{"kept", "kept", "kept"}},
		{"onstart", true, false, [3]string{"", "updated", "updated"}},
		{"onstart", true, true, [3]string{"kept", "kept", "kept"}},
		{"true", false, false, [3]string{"", "updated", "updated"}},
		{"true", true, true, [3]string{"", "kept", "updated"}},
	} {
		for i, desired := range []string{none, "onstart", "true"} {
			synctest.Test(t, func(t *testing.T) {
				k := newKeeping(t, Authentication{})
				r := &registrations{objects: k.objects, atStart: sets.New[string](), synced: sets.New[string]()}
				is, want := of(tt.current, 7), of(desired, 8)
				const name = "v1.example.com"
				if tt.atStart {
					r.atStart.Insert(name)
				}
				if tt.synced {
					r.synced.Insert(name)
				}
				k.stop() // so that only the test registers
				if is != nil {
					if created, err := k.seed(apiServices, is); err != nil || !created {
						t.Fatal(err)
					}
					is = k.get(apiServices, "", name).(*apiregistrationv1.APIService)
				}
				if is != nil || want != nil {
					if err := r.check(want, is); err != nil {
						t.Fatal(err)
					}
				}
				got := ""
				if obj := k.get(apiServices, "", name); obj != nil {
					got = "kept"
					switch {
					case is == nil:
						got = "created"
					case obj.(*apiregistrationv1.APIService).Spec.GroupPriorityMinimum == 8:
						got = "updated"
					}
				}
				if got != tt.want[i] {
					t.Errorf("%s, at start %v, synced %v; desired %s: it was %q, want %q", tt.current, tt.atStart, tt.synced, desired, got, tt.want[i])
				}
			})
		}
	}
}
