package endpoints

import (
	"bytes"
	"encoding/json"
	"maps"
	"math/rand"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apifuzzer "k8s.io/apimachinery/pkg/api/apitesting/fuzzer"
	metafuzzer "k8s.io/apimachinery/pkg/apis/meta/fuzzer"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/randfill"

	"flyball.dev/apiserver/builtin"
)

// mergedUpstream applies a patch to the JSON of an object like the handler of k8s.io/apiserver, and decodes the result.
func mergedUpstream(t testing.TB, obj runtime.Object, gvk schema.GroupVersionKind, patch []byte) (runtime.Object, error) {
	t.Helper()
	info, _ := runtime.SerializerInfoForMediaType(builtin.Codecs().SupportedMediaTypes(), runtime.ContentTypeJSON)
	var before bytes.Buffer
	if err := builtin.Codecs().EncoderForVersion(info.Serializer, gvk.GroupVersion()).Encode(obj, &before); err != nil {
		t.Fatal(err)
	}
	after, err := jsonpatch.MergePatch(before.Bytes(), patch)
	if err != nil {
		return nil, err
	}
	decoded, _, err := builtin.Codecs().DecoderToVersion(info.StrictSerializer, gvk.GroupVersion()).Decode(after, &gvk, nil)
	return decoded, err
}

func kindsOf(s *runtime.Scheme) []schema.GroupVersionKind {
	types := s.AllKnownTypes()
	return slices.SortedFunc(maps.Keys(types), func(a, b schema.GroupVersionKind) int { return strings.Compare(a.String(), b.String()) })
}

// comparePatch compares both results of a patch between two random objects, and reports whether the fast path supports
// the patch.
func comparePatch(t testing.TB, gvk schema.GroupVersionKind, fill *randfill.Filler, random *rand.Rand) bool {
	t.Helper()
	objects := make([][]byte, 2)
	for i := range objects {
		obj, err := scheme.Scheme.New(gvk)
		if err != nil {
			t.Fatal(err)
		}
		fill.Fill(obj)
		if objects[i], err = json.Marshal(obj); err != nil {
			t.Skip(err)
		}
	}
	full, err := jsonpatch.CreateMergePatch(objects[0], objects[1])
	if err != nil {
		t.Fatal(err)
	}
	var fields map[string]any
	if err := json.Unmarshal(full, &fields); err != nil {
		t.Fatal(err)
	}
	thin(fields, random)
	delete(fields, "apiVersion")
	delete(fields, "kind")
	if metadata, ok := fields["metadata"].(map[string]any); ok {
		delete(metadata, "managedFields")
	}
	patch, err := json.Marshal(fields)
	if err != nil {
		t.Fatal(err)
	}
	// A stored object has been decoded once.
	stored, err := mergedUpstream(t, decoded(t, objects[0], gvk), gvk, []byte(`{}`))
	if err != nil {
		return false
	}
	w := &write{body: patch}
	supported, err := w.parsePatch()
	if err != nil {
		return false
	}
	before, mine := stored.DeepCopyObject(), stored.DeepCopyObject()
	if !mergeValue(mine, supported) {
		return false
	}
	builtin.Scheme().Default(mine)
	theirs, err := mergedUpstream(t, stored, gvk, patch)
	if err != nil {
		t.Fatalf("%s: %s: upstream refuses it: %v", gvk, patch, err)
	}
	if diff := cmp.Diff(encoded(t, theirs), encoded(t, mine)); diff != "" {
		t.Fatalf("%s: %s of %s (-upstream +ours):\n%s", gvk, patch, encoded(t, before), diff)
	}
	return true
}

func decoded(t testing.TB, data []byte, gvk schema.GroupVersionKind) runtime.Object {
	t.Helper()
	obj, err := builtin.Scheme().New(gvk)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, obj); err != nil {
		t.Fatal(err)
	}
	return obj
}

func encoded(t testing.TB, obj runtime.Object) string {
	t.Helper()
	obj.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	text, err := json.MarshalIndent(obj, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// thin removes most members of a patch, at all levels.
func thin(patch map[string]any, random *rand.Rand) {
	for _, key := range slices.Sorted(maps.Keys(patch)) {
		inner, ok := patch[key].(map[string]any)
		switch {
		case random.Intn(3) > 0 && !ok:
			delete(patch, key)
		case ok:
			thin(inner, random)
		}
	}
}

// TestMergePatchesOfAllKinds compares merge patches of random objects with k8s.io/apiserver's.
func TestMergePatchesOfAllKinds(t *testing.T) {
	fill := apifuzzer.FuzzerFor(metafuzzer.Funcs, rand.NewSource(1), scheme.Codecs).NilChance(0.4).NumElements(0, 2).MaxDepth(30)
	random := rand.New(rand.NewSource(2))
	kinds, supported, all := 0, 0, 0
	for _, gvk := range kindsOf(builtin.Scheme()) {
		if !scheme.Scheme.Recognizes(gvk) || !builtin.Scheme().Recognizes(gvk) || strings.HasSuffix(gvk.Kind, "List") || strings.HasSuffix(gvk.Kind, "Options") || gvk.Kind == "WatchEvent" {
			continue
		}
		kinds++
		for range 8 {
			all++
			if comparePatch(t, gvk, fill, random) {
				supported++
			}
		}
	}
	t.Logf("%d of %d patches of %d kinds are supported", supported, all, kinds)
	if kinds < 60 || supported < all/3 {
		t.Errorf("%d of %d patches of %d kinds are supported", supported, all, kinds)
	}
}

func FuzzMergePatch(f *testing.F) {
	f.Add(int64(1), uint(3))
	kinds := kindsOf(builtin.Scheme())
	f.Fuzz(func(t *testing.T, seed int64, kind uint) {
		gvk := kinds[kind%uint(len(kinds))]
		if !scheme.Scheme.Recognizes(gvk) || strings.HasSuffix(gvk.Kind, "List") || strings.HasSuffix(gvk.Kind, "Options") || gvk.Kind == "WatchEvent" {
			t.Skip()
		}
		comparePatch(t, gvk, apifuzzer.FuzzerFor(metafuzzer.Funcs, rand.NewSource(seed), scheme.Codecs).NilChance(0.4).NumElements(0, 2).MaxDepth(30),
			rand.New(rand.NewSource(seed)))
	})
}
