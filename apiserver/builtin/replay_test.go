package builtin_test

import (
	"testing"
	"testing/synctest"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"

	"flyball.dev/apiserver/builtin/strategytest"
)

// TestReplay does the recorded writes, and compares what becomes of them with Kubernetes' answers. test/mirror/validation makes the
// recording: for each feature of its generated writes at least one write, chosen among the smallest. The features of a kind and an
// operation are the errors, warnings, defaults and reset fields, and the fields that may be set or changed; kinds with pod templates share
// the features of the templates. Writes that ours answered differently are left out.
func TestReplay(t *testing.T) {
	klog.SetLogger(logr.Discard()) // apimachinery logs invalid addresses
	t.Cleanup(klog.ClearLogger)
	all, err := strategytest.Kinds()
	if err != nil {
		t.Fatal(err)
	}
	writes, err := strategytest.ReadRecording("testdata/validation.jsonl.gz")
	if err != nil {
		t.Fatal(err)
	}
	byName, replayed := map[string]*strategytest.Kind{}, map[string]int{}
	for _, k := range all {
		byName[k.Name] = k
	}
	synctest.Test(t, func(t *testing.T) { // the time is the one of the recording
		for i, r := range writes {
			k := byName[r.Kind]
			if k == nil {
				t.Fatalf("%s is not served", r.Kind)
			}
			replayed[r.Kind]++
			w, err := r.Write(k)
			if err != nil {
				t.Fatalf("line %d: %v", i+1, err)
			}
			got := k.Do(&k.Ours, w)
			differences := strategytest.Compare(&got, r.Outcome())
			for _, d := range differences {
				t.Errorf("line %d, %s %s: %s", i+1, r.Kind, r.Subresource, d)
			}
			if len(differences) > 0 {
				t.Logf("old: %s\nnew: %s", r.Old, r.Object)
			}
		}
	})
	for _, k := range all {
		if replayed[k.Name] == 0 && k.Name != strategytest.Unrecorded {
			t.Errorf("no write of %s is recorded", k.Name)
		}
	}
}
