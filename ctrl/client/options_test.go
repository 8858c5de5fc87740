package client_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"flyball.dev/ctrl/client"
)

func TestListSelectors(t *testing.T) {
	app := labels.SelectorFromSet(labels.Set{"app": "web"})
	tests := []struct {
		name           string
		opts           []client.ListOption
		labels, fields string
	}{
		{"none", nil, "", ""},
		{"labels", []client.ListOption{client.MatchingLabels{"b": "2", "a": "1"}}, "a=1,b=2", ""},
		{"labels twice", []client.ListOption{client.MatchingLabels{"a": "1"}, client.MatchingLabels{"b": "2"}}, "a=1,b=2", ""},
		{"labels and their presence", []client.ListOption{client.HasLabels{"x", "y"}, client.MatchingLabels{"a": "1"}}, "a=1,x,y", ""},
		{"a selector replaces", []client.ListOption{client.MatchingLabels{"a": "1"}, client.MatchingLabelsSelector{Selector: app}}, "app=web", ""},
		{"everything", []client.ListOption{client.MatchingLabelsSelector{Selector: labels.Everything()}}, "", ""},
		{"nothing", []client.ListOption{client.MatchingLabelsSelector{}, client.MatchingFieldsSelector{}}, "flyball.dev/none,!flyball.dev/none", "metadata.name="},
		{"fields", []client.ListOption{client.MatchingFields{"spec.nodeName": "n"}}, "", "spec.nodeName=n"},
		{"a field selector", []client.ListOption{client.MatchingFieldsSelector{Selector: fields.OneTermNotEqualSelector("a", "b")}}, "", "a!=b"},
		{"raw", []client.ListOption{&client.ListOptions{Raw: &metav1.ListOptions{LabelSelector: "raw"}}}, "raw", ""},
		{"raw is overridden", []client.ListOption{&client.ListOptions{Raw: &metav1.ListOptions{LabelSelector: "raw"}}, client.HasLabels{"x"}}, "x", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := (&client.ListOptions{}).ApplyOptions(tt.opts).AsListOptions()
			if got.LabelSelector != tt.labels || got.FieldSelector != tt.fields {
				t.Errorf("labels %q, fields %q; want %q, %q", got.LabelSelector, got.FieldSelector, tt.labels, tt.fields)
			}
			if _, err := labels.Parse(got.LabelSelector); err != nil {
				t.Error(err)
			}
			if _, err := fields.ParseSelector(got.FieldSelector); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestRawStays checks that the options that a caller passes as Raw are the base of
// the sent options, and are not written to.
func TestRawStays(t *testing.T) {
	raw := &metav1.CreateOptions{DryRun: []string{"All"}, FieldManager: "raw"}
	got := (&client.CreateOptions{}).ApplyOptions([]client.CreateOption{&client.CreateOptions{Raw: raw}, client.FieldOwner("me")}).AsCreateOptions()
	if len(got.DryRun) != 1 || got.FieldManager != "me" || raw.FieldManager != "raw" {
		t.Errorf("got %v, raw is now %v", got, raw)
	}

	limits := &metav1.ListOptions{Watch: true, ResourceVersion: "3"}
	watch := (&client.ListOptions{Raw: limits, Limit: 5, Continue: "c"}).AsListOptions()
	if watch.Limit != 0 || watch.Continue != "" || watch.ResourceVersion != "3" {
		t.Errorf("a watch has pages: %v", watch)
	}

	var none *client.DeleteOptions
	if got := none.AsDeleteOptions(); !equal(got, &metav1.DeleteOptions{}) {
		t.Errorf("nil options are %v", got)
	}
}

// TestStructsAreOptions checks that an option struct sets its own fields, and
// nothing else.
func TestStructsAreOptions(t *testing.T) {
	full := &client.PatchOptions{DryRun: []string{"All"}, Force: new(true), FieldManager: "m", FieldValidation: "Strict", DisableReadYourWritesConsistency: true, Raw: &metav1.PatchOptions{}}
	got := &client.PatchOptions{}
	full.ApplyToPatch(got)
	if !equal(got, full) {
		t.Errorf("got %v, want %v", got, full)
	}
	(&client.PatchOptions{}).ApplyToPatch(got)
	if !equal(got, full) {
		t.Errorf("after an empty option: %v", got)
	}

	all := &client.DeleteAllOfOptions{}
	(&client.DeleteAllOfOptions{
		ListOptions:   client.ListOptions{Namespace: "a"},
		DeleteOptions: client.DeleteOptions{GracePeriodSeconds: new(int64(3))},
	}).ApplyToDeleteAllOf(all)
	if all.Namespace != "a" || *all.GracePeriodSeconds != 3 {
		t.Errorf("got %v", all)
	}
}
