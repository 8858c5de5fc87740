package crd

import (
	"encoding/json"
	"math/rand"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apimachinery/pkg/runtime"

	"flyball.dev/internal/testlevel"
)

// FuzzEffects prunes and defaults random objects by random schemas with the functions of apiextensions-apiserver.
// Objects without effects must not change.
func FuzzEffects(f *testing.F) {
	for seed := range int64(600) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed int64) { compareEffects(t, seed) })
}

// TestEffectsAreFew proves that most objects that are not changed are recognized.
func TestEffectsAreFew(t *testing.T) {
	recognized, unchanged := 0, 0
	seeds := testlevel.Rounds(600, 3000)
	for seed := range int64(seeds) {
		r, u := compareEffects(t, seed)
		recognized, unchanged = recognized+r, unchanged+u
	}
	if recognized < unchanged*9/10 || unchanged < seeds/3 {
		t.Errorf("recognized %d of %d effects that objects do not have", recognized, unchanged)
	}
}

// compareEffects returns how many effects objects do not have, and how many of them were recognized.
func compareEffects(t *testing.T, seed int64) (recognized, unchanged int) {
	t.Helper()
	r := &randomSchemas{rand.New(rand.NewSource(seed))}
	props := &apiextensions.JSONSchemaProps{Type: "object", Properties: map[string]apiextensions.JSONSchemaProps{
		"spec": r.schema(3), "status": r.schema(2)}}
	s, err := structural.NewStructural(props)
	if err != nil {
		return 0, 0 // such a definition is refused
	}
	r.addDefaults(s)
	compiled := compileStructure(s)
	for range 20 {
		obj := r.object(props).Object
		if r.Intn(2) == 0 { // most are changed at first
			pruning.Prune(obj, s, true)
			defaulting.PruneNonNullableNullsWithoutDefaults(obj, s)
			defaulting.Default(obj, s)
		}
		found := compiled.ofObject(obj, true)
		compareUnknown(t, compiled, s, obj)
		for effect, have := range map[effects]func(any){
			prunes: func(x any) {
				pruning.Prune(x, s, true)
				defaulting.PruneNonNullableNullsWithoutDefaults(x, s)
			},
			defaults: func(x any) { defaulting.Default(x, s) },
		} {
			after := runtime.DeepCopyJSON(obj)
			have(after)
			switch diff := cmp.Diff(obj, after); {
			case diff != "" && found&effect == 0:
				schema, _ := json.Marshal(props)
				t.Fatalf("seed %d: effect %d was not recognized (-before +after):\n%s\nschema %s", seed, effect, diff, schema)
			case diff == "":
				if unchanged++; found&effect == 0 {
					recognized++
				}
			}
		}
	}
	return recognized, unchanged
}

// compareUnknown compares the paths of unknown fields with apiextensions-apiserver's.
func compareUnknown(t *testing.T, compiled *structure, s *structural.Structural, obj map[string]any) {
	t.Helper()
	want := pruning.PruneWithOptions(runtime.DeepCopyJSON(obj), s, true, structural.UnknownFieldPathOptions{TrackUnknownFieldPaths: true})
	got, more := compiled.unknownFields(obj)
	if diff := cmp.Diff(want, got); diff != "" && !more && len(want)+len(got) > 0 {
		schema, _ := json.Marshal(s)
		object, _ := json.Marshal(obj)
		t.Fatalf("unknown fields (-want +got):\n%s\nschema %s\nobject %s", diff, schema, object)
	}
}

// addDefaults gives some of the fields of a schema a default.
func (r *randomSchemas) addDefaults(s *structural.Structural) {
	if s == nil {
		return
	}
	r.addDefaults(s.Items)
	if a := s.AdditionalProperties; a != nil {
		r.addDefaults(a.Structural)
	}
	for name, property := range s.Properties {
		r.addDefaults(&property)
		if r.Intn(4) == 0 {
			property.Default.Object = pick[any](r, "x", int64(1), map[string]any{}, []any{"y"})
		}
		s.Properties[name] = property
	}
}
