package schema

import (
	"fmt"
	"maps"
	"math/rand"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	apifuzzer "k8s.io/apimachinery/pkg/api/apitesting/fuzzer"
	metafuzzer "k8s.io/apimachinery/pkg/apis/meta/fuzzer"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/client-go/applyconfigurations"
	"k8s.io/client-go/kubernetes/scheme"
	smd "sigs.k8s.io/structured-merge-diff/v6/schema"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
)

// The merge schemas are compared with those that client-go embeds for the kinds that can be
// applied.

var stable = regexp.MustCompile(`^v\d+$`)

// stableKinds are the persistent kinds in stable versions.
func stableKinds() map[schema.GroupVersionKind]reflect.Type {
	found := map[schema.GroupVersionKind]reflect.Type{}
	for gvk, t := range scheme.Scheme.AllKnownTypes() {
		if _, ok := t.FieldByName("ObjectMeta"); ok && stable.MatchString(gvk.Version) {
			found[gvk] = t
		}
	}
	return found
}

func sortedKinds() []schema.GroupVersionKind {
	return slices.SortedFunc(maps.Keys(stableKinds()), func(a, b schema.GroupVersionKind) int {
		return strings.Compare(a.String(), b.String())
	})
}

// neverApplied have no merge schema upstream: nearly all are requests that are answered, not
// objects.
var neverApplied = []string{
	"io.k8s.api.authentication.v1.", "io.k8s.api.authorization.v1.", "io.k8s.api.autoscaling.v1.Scale",
	"io.k8s.api.core.v1.Binding", "io.k8s.api.core.v1.RangeAllocation",
	"io.k8s.apimachinery.pkg.apis.meta.v1.FieldSelectorRequirement",
}

func TestMergeSchemasEqualUpstream(t *testing.T) {
	pod := newObject(t, schema.GroupVersionKind{Version: "v1", Kind: "Pod"})
	value, err := applyconfigurations.NewTypeConverter(scheme.Scheme).ObjectToTyped(pod)
	if err != nil {
		t.Fatal(err)
	}
	theirs := value.Schema()
	compared := map[string]bool{}
	for _, gvk := range sortedKinds() {
		for _, ours := range Mergeable(stableKinds()[gvk]).Schema.Types {
			if compared[ours.Name] {
				continue
			}
			compared[ours.Name] = true
			want, ok := theirs.FindNamedType(ours.Name)
			if ok {
				comparison{t}.atoms(ours.Name, ours.Atom, want.Atom)
			} else if !slices.ContainsFunc(neverApplied, func(p string) bool { return strings.HasPrefix(ours.Name, p) }) {
				t.Errorf("%s: unknown upstream", ours.Name)
			}
		}
	}
	if len(compared) < 500 {
		t.Errorf("only %d types compared", len(compared))
	}
}

// comparison compares two schemas. It ignores two differences: upstream inlines the untyped value
// to which ours refer, and refers to the atomic untyped value where ours refer to RawExtension,
// which is equivalent.
type comparison struct{ *testing.T }

const rawExtension = "io.k8s.apimachinery.pkg.runtime.RawExtension"

func (c comparison) differ(path, what string, got, want any) {
	c.Helper()
	if !reflect.DeepEqual(got, want) {
		c.Errorf("%s: %s is %v, upstream %v", path, what, got, want)
	}
}

func (c comparison) refs(path string, got, want smd.TypeRef) {
	name, inlined := refName(want), want.Inlined
	if inlined.Scalar != nil && inlined.List != nil && inlined.Map != nil {
		name, inlined = "__untyped_deduced_", smd.Atom{}
	}
	if refName(got) == rawExtension && name == "__untyped_atomic_" {
		name = rawExtension
	}
	c.differ(path, "type", refName(got), name)
	c.differ(path, "relationship", got.ElementRelationship, want.ElementRelationship)
	c.differ(path, "nullable", got.Nullable, want.Nullable)
	c.atoms(path, got.Inlined, inlined)
}

func refName(r smd.TypeRef) string {
	if r.NamedType == nil {
		return ""
	}
	return *r.NamedType
}

func (c comparison) atoms(path string, got, want smd.Atom) {
	if path == rawExtension {
		c.differ(path, "list", got.List.ElementRelationship, smd.Atomic)
		c.differ(path, "map", got.Map.ElementRelationship, smd.Atomic)
		return
	}
	c.differ(path, "scalar", got.Scalar, want.Scalar)
	c.differ(path, "is a list", got.List != nil, want.List != nil)
	c.differ(path, "is a map", got.Map != nil, want.Map != nil)
	if got.List != nil && want.List != nil {
		c.differ(path, "list", got.List.ElementRelationship, want.List.ElementRelationship)
		c.differ(path, "keys", got.List.Keys, want.List.Keys)
		c.refs(path+"[]", got.List.ElementType, want.List.ElementType)
	}
	if got.Map != nil && want.Map != nil {
		c.differ(path, "map", got.Map.ElementRelationship, want.Map.ElementRelationship)
		c.refs(path+"{}", got.Map.ElementType, want.Map.ElementType)
		c.fields(path, got.Map, want.Map)
	}
}

func (c comparison) fields(path string, got, want *smd.Map) {
	for _, f := range want.Fields {
		if _, ok := got.FindField(f.Name); !ok {
			c.Errorf("%s.%s: missing", path, f.Name)
		}
	}
	for _, f := range got.Fields {
		other, ok := want.FindField(f.Name)
		if !ok {
			c.Errorf("%s.%s: unknown upstream", path, f.Name)
			continue
		}
		c.differ(path+"."+f.Name, "default", fmt.Sprint(f.Default), fmt.Sprint(other.Default))
		c.refs(path+"."+f.Name, f.Type, other.Type)
	}
}

// TestConvertersAgree compares the fields and merges of random objects by both converters.
func TestConvertersAgree(t *testing.T) {
	ours, theirs := TypeConverter(scheme.Scheme), applyconfigurations.NewTypeConverter(scheme.Scheme)
	random := apifuzzer.FuzzerFor(metafuzzer.Funcs, rand.NewSource(1), scheme.Codecs)
	for _, gvk := range sortedKinds() {
		if slices.ContainsFunc(neverApplied, func(p string) bool { return strings.HasPrefix(Of(stableKinds()[gvk]).Name, p) }) {
			continue
		}
		t.Run(gvk.String(), func(t *testing.T) {
			for range 3 {
				a, b := newObject(t, gvk), newObject(t, gvk)
				random.Fill(a)
				random.Fill(b)
				a.GetObjectKind().SetGroupVersionKind(gvk)
				b.GetObjectKind().SetGroupVersionKind(gvk)
				got, want := history(t, ours, a, b), history(t, theirs, a, b)
				if got != want {
					t.Fatalf("got  %s\nwant %s", got, want)
				}
			}
		})
	}
}

// history returns the results of a converter for two objects.
func history(t *testing.T, c managedfields.TypeConverter, a, b runtime.Object) string {
	x, err := c.ObjectToTyped(a, typed.AllowDuplicates)
	if err != nil {
		return err.Error()
	}
	y, err := c.ObjectToTyped(b, typed.AllowDuplicates)
	if err != nil {
		return err.Error()
	}
	set, err := x.ToFieldSet()
	if err != nil {
		return err.Error()
	}
	if set.Empty() {
		t.Fatal("an object without fields")
	}
	difference, err := x.Compare(y)
	if err != nil {
		return err.Error()
	}
	merged, err := x.Merge(y)
	if err != nil {
		return err.Error()
	}
	all, err := merged.ToFieldSet()
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%s\n%s\n%s", set, difference, all)
}

func newObject(t testing.TB, gvk schema.GroupVersionKind) runtime.Object {
	t.Helper()
	obj, err := scheme.Scheme.New(gvk)
	if err != nil {
		t.Fatal(err)
	}
	obj.GetObjectKind().SetGroupVersionKind(gvk)
	return obj
}
