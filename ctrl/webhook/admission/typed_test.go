package admission

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
)

const configMap = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"cm"},"data":{"a":"1"}}`

func raw(s string) runtime.RawExtension { return runtime.RawExtension{Raw: []byte(s)} }

func request(operation admissionv1.Operation, object, old string) Request {
	req := Request{admissionv1.AdmissionRequest{
		UID: "u", Operation: operation, Kind: metav1.GroupVersionKind{Version: "v1", Kind: "ConfigMap"},
	}}
	if object != "" {
		req.Object = raw(object)
	}
	if old != "" {
		req.OldObject = raw(old)
	}
	return req
}

func TestDecoder(t *testing.T) {
	d := NewDecoder(clientgoscheme.Scheme)
	want := &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Name: "cm"}, Data: map[string]string{"a": "1"},
	}
	untyped := want.DeepCopy()
	untyped.TypeMeta = metav1.TypeMeta{}
	for name, c := range map[string]struct {
		raw  string
		into runtime.Object
		want any
		err  string
	}{
		"typed":           {configMap, &corev1.ConfigMap{}, want, ""},
		"without kind":    {`{"metadata":{"name":"cm"},"data":{"a":"1"}}`, &corev1.ConfigMap{}, untyped, ""},
		"unstructured":    {`{"a":{"b":1}}`, &unstructured.Unstructured{}, &unstructured.Unstructured{Object: map[string]any{"a": map[string]any{"b": int64(1)}}}, ""},
		"other kind":      {configMap, &corev1.Pod{}, nil, "unable to decode /v1, Kind=ConfigMap into *v1.Pod"},
		"unknown kind":    {`{"apiVersion":"x/v1","kind":"X"}`, &corev1.Pod{}, nil, `no kind "X" is registered for version "x/v1"`},
		"empty":           {``, &corev1.Pod{}, nil, "there is no content to decode"},
		"not JSON":        {`{`, &corev1.Pod{}, nil, "json parse error"},
		"not JSON either": {`{`, &unstructured.Unstructured{}, nil, "unexpected end of JSON input"},
		"wrong field":     {`{"apiVersion":"v1","kind":"ConfigMap","data":[]}`, &corev1.ConfigMap{}, nil, "cannot unmarshal array into Go struct field"},
	} {
		err := d.DecodeRaw(raw(c.raw), c.into)
		if again := d.Decode(request("", c.raw, ""), c.into.DeepCopyObject()); (err == nil) != (again == nil) {
			t.Errorf("%s: Decode returned %v, DecodeRaw %v", name, again, err)
		}
		switch {
		case c.err != "":
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s: the error is %v, want %s", name, err, c.err)
			}
		case err != nil || !reflect.DeepEqual(c.into, c.want):
			t.Errorf("%s: got %+v, %v, want %+v", name, c.into, err, c.want)
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("a decoder without scheme was made")
		}
	}()
	NewDecoder(nil)
}

// oddlyNamed reports whether data may have the fields kind or apiVersion in other spellings, or
// more than once. The API machinery takes these when it looks for the kind, but not when it
// decodes.
func oddlyNamed(data []byte) bool {
	lower := bytes.ToLower(data)
	for _, name := range []string{"kind", "apiVersion"} {
		n := bytes.Count(lower, bytes.ToLower([]byte(name)))
		if n > 1 || n != bytes.Count(data, []byte(name)) {
			return true
		}
	}
	return bytes.Contains(data, []byte(`\u`))
}

// FuzzDecoder compares decoding in one pass with how the API machinery decodes.
func FuzzDecoder(f *testing.F) {
	for _, seed := range []string{
		configMap, `{}`, `{"kind":"ConfigMap"}`, `{"apiVersion":"v1","kind":"Pod"}`, `{"data":{"a":1}}`, `null`, `[]`, `{`,
		`{"apiVersion":"v1","kind":"ConfigMap","data":null,"data":{"a":"b"},"DATA":1}`, "kind: ConfigMap\napiVersion: v1\ndata: {a: b}",
	} {
		f.Add([]byte(seed))
	}
	d := NewDecoder(clientgoscheme.Scheme).(*decoder)
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) == 0 || oddlyNamed(data) {
			return
		}
		var got, want corev1.ConfigMap
		err := d.DecodeRaw(runtime.RawExtension{Raw: slices.Clone(data)}, &got)
		wantErr := runtime.DecodeInto(d.universal, slices.Clone(data), &want)
		if (err == nil) != (wantErr == nil) || err != nil && err.Error() != wantErr.Error() {
			t.Fatalf("the error is %v, want %v", err, wantErr)
		}
		if err == nil && !reflect.DeepEqual(got, want) {
			t.Fatalf("decoded %+v, want %+v", got, want)
		}
	})
}

// rules validates and defaults ConfigMaps, of their type or as any object.
type rules[T runtime.Object] struct {
	err      error
	warnings Warnings
	change   func(*corev1.ConfigMap)
	calls    []string
}

func (r *rules[T]) called(ctx context.Context, what string, objects ...T) (Warnings, error) {
	req, err := RequestFromContext(ctx)
	if err != nil {
		return nil, err
	}
	for _, obj := range objects {
		what += " " + any(obj).(*corev1.ConfigMap).Data["a"]
	}
	r.calls = append(r.calls, what+" for "+string(req.UID))
	return r.warnings, r.err
}

func (r *rules[T]) ValidateCreate(ctx context.Context, obj T) (Warnings, error) {
	return r.called(ctx, "create", obj)
}

func (r *rules[T]) ValidateUpdate(ctx context.Context, oldObj, newObj T) (Warnings, error) {
	return r.called(ctx, "update", oldObj, newObj)
}

func (r *rules[T]) ValidateDelete(ctx context.Context, obj T) (Warnings, error) {
	return r.called(ctx, "delete", obj)
}

func (r *rules[T]) Default(ctx context.Context, obj T) error {
	if r.change != nil {
		r.change(any(obj).(*corev1.ConfigMap))
	}
	_, err := r.called(ctx, "default", obj)
	return err
}

// A handler of several kinds tries one after the other.
func TestDecoderLeavesObjectsOfOtherKindsAlone(t *testing.T) {
	d := NewDecoder(clientgoscheme.Scheme)
	for name, into := range map[string]runtime.Object{
		"empty":     &corev1.Secret{},
		"not empty": &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "before", Labels: map[string]string{"a": "b"}}},
	} {
		want := into.DeepCopyObject()
		if err := d.DecodeRaw(raw(configMap), into); err == nil || !reflect.DeepEqual(into, want) {
			t.Errorf("%s: %v, and the object is %v, want %v", name, err, into, want)
		}
	}
	into := &corev1.ConfigMap{Data: map[string]string{"b": "2"}}
	err := d.DecodeRaw(raw(configMap), into)
	if want := map[string]string{"a": "1", "b": "2"}; err != nil || into.Name != "cm" || !reflect.DeepEqual(into.Data, want) {
		t.Errorf("an object that is not empty: %v, %v", err, into)
	}
}

func TestValidator(t *testing.T) {
	const other = `{"apiVersion":"v1","kind":"ConfigMap","data":{"a":"2"}}`
	invalid := apierrors.NewInvalid(schema.GroupKind{Kind: "ConfigMap"}, "cm", nil)
	for name, c := range map[string]struct {
		req     Request
		rules   rules[*corev1.ConfigMap]
		call    string
		code    int32
		message string
	}{
		"create":            {request(admissionv1.Create, configMap, ""), rules[*corev1.ConfigMap]{}, "create 1 for u", 200, ""},
		"update":            {request(admissionv1.Update, other, configMap), rules[*corev1.ConfigMap]{}, "update 1 2 for u", 200, ""},
		"delete":            {request(admissionv1.Delete, "", configMap), rules[*corev1.ConfigMap]{}, "delete 1 for u", 200, ""},
		"connect":           {request(admissionv1.Connect, "", ""), rules[*corev1.ConfigMap]{}, "", 200, ""},
		"warnings":          {request(admissionv1.Create, configMap, ""), rules[*corev1.ConfigMap]{warnings: Warnings{"w"}}, "create 1 for u", 200, ""},
		"refused":           {request(admissionv1.Create, configMap, ""), rules[*corev1.ConfigMap]{err: errors.New("no"), warnings: Warnings{"w"}}, "create 1 for u", 403, "no"},
		"refused by status": {request(admissionv1.Delete, "", configMap), rules[*corev1.ConfigMap]{err: invalid}, "delete 1 for u", 422, invalid.Error()},
		"wrapped status":    {request(admissionv1.Delete, "", configMap), rules[*corev1.ConfigMap]{err: errors.Join(invalid)}, "delete 1 for u", 422, invalid.Error()},
		"unknown operation": {request("PAINT", configMap, ""), rules[*corev1.ConfigMap]{}, "", 400, `unknown operation "PAINT"`},
		"create nothing":    {request(admissionv1.Create, "", ""), rules[*corev1.ConfigMap]{}, "", 400, "there is no content to decode"},
		"update nothing":    {request(admissionv1.Update, configMap, ""), rules[*corev1.ConfigMap]{}, "", 400, "there is no content to decode"},
		"update to nothing": {request(admissionv1.Update, "", configMap), rules[*corev1.ConfigMap]{}, "", 400, "there is no content to decode"},
		"delete nothing":    {request(admissionv1.Delete, configMap, ""), rules[*corev1.ConfigMap]{}, "", 400, "there is no content to decode"},
	} {
		t.Run(name, func(t *testing.T) {
			custom := &rules[runtime.Object]{err: c.rules.err, warnings: c.rules.warnings}
			anyType := &rules[runtime.Object]{err: c.rules.err, warnings: c.rules.warnings}
			for kind, v := range map[string]struct {
				hook  *Webhook
				calls *[]string
			}{
				"typed":  {WithValidator(clientgoscheme.Scheme, &c.rules), &c.rules.calls},
				"custom": {WithCustomValidator(clientgoscheme.Scheme, &corev1.ConfigMap{}, custom), &custom.calls},
				"any":    {WithValidator[runtime.Object](clientgoscheme.Scheme, anyType), &anyType.calls},
			} {
				r := v.hook.Handle(t.Context(), c.req)
				if r.Allowed != (c.code == 200) || r.Result.Code != c.code || r.Result.Message != c.message || r.UID != "u" {
					t.Errorf("%s: got %+v", kind, r)
				}
				if got := strings.Join(*v.calls, ", "); got != c.call {
					t.Errorf("%s: called %q, want %q", kind, got, c.call)
				}
				if !slices.Equal(r.Warnings, c.rules.warnings) {
					t.Errorf("%s: the warnings are %v", kind, r.Warnings)
				}
			}
		})
	}
}

func TestDefaulter(t *testing.T) {
	// The label is unknown to the type, and null where the type has omitempty.
	const unknown = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"cm"},"data":{"a":"1"},"novel":1,"immutable":null}`
	change := func(cm *corev1.ConfigMap) { cm.Data["a"] = "2" }
	remove := func(cm *corev1.ConfigMap) { cm.Data = nil }
	for name, c := range map[string]struct {
		object  string
		change  func(*corev1.ConfigMap)
		err     error
		opts    []DefaulterOption
		patches string
		code    int32
		message string
	}{
		"no change":         {configMap, nil, nil, nil, "", 200, ""},
		"change":            {configMap, change, nil, nil, `{"op":"replace","path":"/data/a","value":"2"}`, 200, ""},
		"removal":           {configMap, remove, nil, nil, `{"op":"remove","path":"/data"}`, 200, ""},
		"unknown, same":     {unknown, nil, nil, nil, "", 200, ""},
		"unknown, change":   {unknown, change, nil, nil, `{"op":"replace","path":"/data/a","value":"2"}`, 200, ""},
		"unknown, removal":  {unknown, remove, nil, nil, `{"op":"remove","path":"/data"}`, 200, ""},
		"remove unknown":    {unknown, nil, nil, []DefaulterOption{DefaulterRemoveUnknownOrOmitableFields}, `{"op":"remove","path":"/immutable"} {"op":"remove","path":"/novel"}`, 200, ""},
		"remove and change": {unknown, change, nil, []DefaulterOption{DefaulterRemoveUnknownOrOmitableFields}, `{"op":"remove","path":"/immutable"} {"op":"remove","path":"/novel"} {"op":"replace","path":"/data/a","value":"2"}`, 200, ""},
		"refused":           {configMap, change, errors.New("no"), nil, "", 403, "no"},
		"refused by status": {configMap, change, apierrors.NewTimeoutError("later", 1), nil, "", 504, "Timeout: later"},
		"nothing":           {"", nil, nil, nil, "", 400, "there is no content to decode"},
	} {
		t.Run(name, func(t *testing.T) {
			for kind, hook := range map[string]*Webhook{
				"typed":  WithDefaulter(clientgoscheme.Scheme, &rules[*corev1.ConfigMap]{change: c.change, err: c.err}, c.opts...),
				"custom": WithCustomDefaulter(clientgoscheme.Scheme, &corev1.ConfigMap{}, &rules[runtime.Object]{change: c.change, err: c.err}, c.opts...),
				"any":    WithDefaulter[runtime.Object](clientgoscheme.Scheme, &rules[runtime.Object]{change: c.change, err: c.err}, c.opts...),
			} {
				r := hook.Handle(t.Context(), request(admissionv1.Create, c.object, ""))
				var patches []string
				for _, p := range r.Patches {
					patches = append(patches, p.Json())
				}
				slices.Sort(patches)
				if got := strings.Join(patches, " "); got != c.patches {
					t.Errorf("%s: patches %s, want %s", kind, got, c.patches)
				}
				if r.Allowed != (c.code == 200) || r.Result.Code != c.code || r.Result.Message != c.message {
					t.Errorf("%s: got %+v", kind, r.Result)
				}
				if (r.PatchType != nil) != (c.patches != "") {
					t.Errorf("%s: the patch type is %v", kind, r.PatchType)
				}
			}
		})
	}
}

func TestDefaulterIsNotCalledForDeletions(t *testing.T) {
	r := &rules[*corev1.ConfigMap]{}
	response := WithDefaulter(clientgoscheme.Scheme, r).Handle(t.Context(), request(admissionv1.Delete, "", configMap))
	if !response.Allowed || response.Result.Code != http.StatusOK || len(r.calls) > 0 {
		t.Errorf("got %+v after %v", response, r.calls)
	}
}

func TestAnyTypeOfAnUnknownKind(t *testing.T) {
	req := request(admissionv1.Create, configMap, "")
	req.Kind.Kind = "Unknown"
	response := WithValidator[runtime.Object](clientgoscheme.Scheme, &rules[runtime.Object]{}).Handle(t.Context(), req)
	if response.Allowed || response.Result.Code != http.StatusBadRequest || !strings.Contains(response.Result.Message, "no kind") {
		t.Errorf("got %+v", response.Result)
	}
}

func TestNilRules(t *testing.T) {
	withoutPanicHandlers(t)
	for want, hook := range map[string]*Webhook{
		"panic: validator should never be nil [recovered]": WithValidator[*corev1.ConfigMap](clientgoscheme.Scheme, nil),
		"panic: defaulter should never be nil [recovered]": WithDefaulter[*corev1.ConfigMap](clientgoscheme.Scheme, nil),
	} {
		if r := hook.Handle(t.Context(), request(admissionv1.Create, configMap, "")); r.Result.Message != want {
			t.Errorf("got %q, want %q", r.Result.Message, want)
		}
	}
}
