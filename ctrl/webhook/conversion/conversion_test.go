package conversion_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/goleak"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"

	"flyball.dev/ctrl/webhook/conversion"
	"flyball.dev/ctrl/webhook/conversion/metrics"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func alphaSpoke() conversion.SpokeConverter[*Stable] {
	return conversion.NewSpokeConverter(&Alpha{},
		func(_ context.Context, src *Stable, dst *Alpha) error { return stableToAlpha(src, dst) },
		func(_ context.Context, src *Alpha, dst *Stable) error { return alphaToStable(src, dst) })
}

func betaSpoke() conversion.SpokeConverter[*Stable] {
	return conversion.NewSpokeConverter(&Beta{},
		func(_ context.Context, src *Stable, dst *Beta) error { return stableToBeta(src, dst) },
		func(_ context.Context, src *Beta, dst *Stable) error { return betaToStable(src, dst) })
}

// handlers are the two ways to convert Jobs: by methods and by a registered converter.
func handlers(t *testing.T) map[string]http.Handler {
	t.Helper()
	scheme, registry := newScheme(), conversion.NewRegistry()
	converter, err := conversion.NewHubSpokeConverter(&Stable{}, alphaSpoke(), betaSpoke())(scheme)
	if err != nil {
		t.Fatal(err)
	}
	if err := registry.RegisterConverter(version("v1").WithKind("Job").GroupKind(), converter); err != nil {
		t.Fatal(err)
	}
	return map[string]http.Handler{
		"methods":   conversion.NewWebhookHandler(scheme, conversion.NewRegistry()),
		"converter": conversion.NewWebhookHandler(scheme, registry),
	}
}

func post(handler http.Handler, body string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/convert", strings.NewReader(body)))
	return w
}

// review returns a review that asks to convert objects.
func review(to string, objects ...string) string {
	return fmt.Sprintf(`{"kind":"ConversionReview","apiVersion":"apiextensions.k8s.io/v1","request":{"uid":"u","desiredAPIVersion":%q,"objects":[%s]}}`,
		to, strings.Join(objects, ","))
}

func job(v, field, value string) string {
	return fmt.Sprintf(`{"kind":"Job","apiVersion":"batch.example.org/%s","metadata":{"name":"j"},%q:%q}`, v, field, value)
}

func TestConvert(t *testing.T) {
	utilruntime.PanicHandlers = nil
	alpha, beta, stable := job("v1alpha1", "runAt", "now"), job("v1beta1", "scheduleAt", "now"), job("v1", "schedule", "now")
	for name, c := range map[string]struct {
		to      string
		objects []string
		want    []string
		errs    []string // by methods, and by a converter if another
	}{
		"spoke to hub":   {"batch.example.org/v1", []string{alpha}, []string{stable}, nil},
		"hub to spoke":   {"batch.example.org/v1beta1", []string{stable}, []string{beta}, nil},
		"spoke to spoke": {"batch.example.org/v1beta1", []string{alpha}, []string{beta}, nil},
		"several":        {"batch.example.org/v1", []string{alpha, beta, alpha}, []string{stable, stable, stable}, nil},
		"none":           {"batch.example.org/v1", nil, nil, nil},
		"same version":   {"batch.example.org/v1", []string{stable}, nil, []string{"conversion is not allowed between same type *conversion_test.Stable"}},
		"unknown kind":   {"batch.example.org/v1", []string{`{"kind":"X","apiVersion":"x/v1"}`}, nil, []string{`no kind "X" is registered for version "x/v1" in scheme`}},
		"unknown version": {
			"batch.example.org/v7", []string{alpha}, nil,
			[]string{`no kind "Job" is registered for version "batch.example.org/v7" in scheme`},
		},
		"not an object": {"batch.example.org/v1", []string{`{}`}, nil, []string{"Object 'Kind' is missing in '{}'"}},
		"refused": {
			"batch.example.org/v1beta1", []string{alpha, job("v1alpha1", "runAt", "refuse")}, nil,
			[]string{
				"*conversion_test.Alpha failed to convert to hub version *conversion_test.Stable : refused",
				"failed to convert spoke batch.example.org/v1alpha1, Kind=Job to hub batch.example.org/v1, Kind=Job : refused",
			},
		},
		"refused by the target": {
			"batch.example.org/v1beta1", []string{job("v1alpha1", "runAt", "not in beta")}, nil,
			[]string{
				"*conversion_test.Beta failed to convert from hub version *conversion_test.Stable : not in beta",
				"failed to convert hub batch.example.org/v1, Kind=Job to spoke batch.example.org/v1beta1, Kind=Job : not in beta",
			},
		},
		"panic": {"batch.example.org/v1", []string{job("v1alpha1", "runAt", "panic")}, nil, []string{"internal error occurred during conversion"}},
		"not convertible": {
			"batch.example.org/v1beta1", []string{`{"kind":"Plain","apiVersion":"batch.example.org/v1"}`}, nil,
			[]string{"*conversion_test.Plain is not convertible to *conversion_test.Other"},
		},
	} {
		for way, handler := range handlers(t) {
			t.Run(name+"/"+way, func(t *testing.T) {
				w := post(handler, review(c.to, c.objects...))
				var out apiextensionsv1.ConversionReview
				if err := json.Unmarshal(w.Body.Bytes(), &out); err != nil || w.Code != http.StatusOK {
					t.Fatalf("got %d, %s", w.Code, w.Body)
				}
				if out.Kind != "ConversionReview" || out.APIVersion != "apiextensions.k8s.io/v1" || out.Request != nil || out.Response.UID != "u" {
					t.Errorf("got %s", w.Body)
				}
				if len(c.errs) > 0 {
					want := c.errs[0]
					if way == "converter" {
						want = c.errs[len(c.errs)-1]
					}
					if r := out.Response; r.Result.Status != "Failure" || !strings.HasPrefix(r.Result.Message, want) || len(r.ConvertedObjects) > 0 {
						t.Errorf("got %s\nwant %s", w.Body, want)
					}
					return
				}
				if got := out.Response.Result.Status; got != "Success" {
					t.Errorf("the status is %s", w.Body)
				}
				var got []string
				for _, obj := range out.Response.ConvertedObjects {
					got = append(got, string(obj.Raw))
				}
				if strings.Join(got, "\n") != strings.Join(c.want, "\n") {
					t.Errorf("got %s\nwant %s", got, c.want)
				}
			})
		}
	}
}

func TestPanicsAreCounted(t *testing.T) {
	utilruntime.PanicHandlers = nil
	before := testutil.ToFloat64(metrics.WebhookPanics)
	post(handlers(t)["methods"], review("batch.example.org/v1", job("v1alpha1", "runAt", "panic")))
	if got := testutil.ToFloat64(metrics.WebhookPanics) - before; got != 1 {
		t.Errorf("%v panics were counted", got)
	}
}

func TestOldReviews(t *testing.T) {
	body := strings.Replace(review("batch.example.org/v1", job("v1beta1", "scheduleAt", "now")), "/v1\"", "/v1beta1\"", 1)
	w := post(handlers(t)["methods"], body)
	if got := w.Body.String(); !strings.HasPrefix(got, `{"kind":"ConversionReview","apiVersion":"apiextensions.k8s.io/v1beta1"`) || !strings.Contains(got, `"schedule":"now"`) {
		t.Errorf("got %s", got)
	}
}

func TestNotAReview(t *testing.T) {
	handler := handlers(t)["methods"]
	for _, body := range []string{``, `{`, `[]`, `{}`, `{"request":null}`} {
		if w := post(handler, body); w.Code != http.StatusBadRequest || w.Body.Len() > 0 {
			t.Errorf("%q: got %d, %s", body, w.Code, w.Body)
		}
	}
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, &http.Request{})
	if w.Code != http.StatusBadRequest {
		t.Errorf("without a body: got %d", w.Code)
	}
}

func TestHubSpokeConverterErrors(t *testing.T) {
	incomplete := runtime.NewScheme()
	incomplete.AddKnownTypeWithName(version("v1").WithKind("Job"), &Stable{})
	plain := conversion.NewSpokeConverter(&Plain{},
		func(context.Context, *Stable, *Plain) error { return nil },
		func(context.Context, *Plain, *Stable) error { return nil })
	for name, c := range map[string]struct {
		scheme *runtime.Scheme
		spokes []conversion.SpokeConverter[*Stable]
		err    string
	}{
		"complete":      {newScheme(), []conversion.SpokeConverter[*Stable]{betaSpoke(), alphaSpoke()}, ""},
		"hub unknown":   {runtime.NewScheme(), nil, "failed to create hub spoke converter: failed to get GroupVersionKind for hub: no kind is registered for the type conversion_test.Stable"},
		"spoke unknown": {incomplete, []conversion.SpokeConverter[*Stable]{betaSpoke()}, "failed to create hub spoke converter for Job: failed to get GroupVersionKind for spoke converter: no kind is registered"},
		"other kind":    {newScheme(), []conversion.SpokeConverter[*Stable]{plain}, "failed to create hub spoke converter for Job: spoke converter GroupKind Plain.batch.example.org does not match hub GroupKind Job.batch.example.org"},
		"twice":         {newScheme(), []conversion.SpokeConverter[*Stable]{betaSpoke(), betaSpoke()}, "failed to create hub spoke converter for Job: duplicate spoke converter for version v1beta1"},
		"missing":       {newScheme(), []conversion.SpokeConverter[*Stable]{betaSpoke()}, "failed to create hub spoke converter for Job: expected spoke converter for v1alpha1,v1beta1 got spoke converter for v1beta1"},
	} {
		_, err := conversion.NewHubSpokeConverter(&Stable{}, c.spokes...)(c.scheme)
		if (err == nil) != (c.err == "") || err != nil && !strings.HasPrefix(err.Error(), c.err) {
			t.Errorf("%s: the error is %v, want %s", name, err, c.err)
		}
	}
}

func TestRegistry(t *testing.T) {
	r, gk := conversion.NewRegistry(), schema.GroupKind{Group: "g", Kind: "K"}
	if _, ok := r.GetConverter(gk); ok {
		t.Error("an empty registry has a converter")
	}
	converter, err := conversion.NewHubSpokeConverter(&Stable{}, alphaSpoke(), betaSpoke())(newScheme())
	if err := errors.Join(err, r.RegisterConverter(gk, converter)); err != nil {
		t.Fatal(err)
	}
	if got, ok := r.GetConverter(gk); !ok || got != converter {
		t.Errorf("got %v, %v", got, ok)
	}
	if err := r.RegisterConverter(gk, converter); err == nil || err.Error() != "failed to register Converter for GroupKind K.g: converter already registered" {
		t.Errorf("the error is %v", err)
	}
}

func TestIsConvertible(t *testing.T) {
	types := func(objects map[string]runtime.Object) *runtime.Scheme {
		scheme := runtime.NewScheme()
		for v, obj := range objects {
			scheme.AddKnownTypeWithName(version(v).WithKind("Job"), obj)
		}
		return scheme
	}
	partial := &conversion.PartialImplementationError{}
	for name, c := range map[string]struct {
		scheme *runtime.Scheme
		obj    runtime.Object
		want   bool
		err    string
	}{
		"all":            {newScheme(), &Beta{}, true, ""},
		"none":           {newScheme(), &Plain{}, false, ""},
		"single version": {types(map[string]runtime.Object{"v1": &Stable{}}), &Stable{}, false, ""},
		"no hub":         {types(map[string]runtime.Object{"v1": &Beta{}, "v2": &Alpha{}}), &Beta{}, false, "no hub defined for gvk batch.example.org/v1, Kind=Job"},
		"two hubs":       {types(map[string]runtime.Object{"v1": &Stable{}, "v2": &OtherHub{}, "v3": &Beta{}}), &Beta{}, false, "multiple(2) hubs defined for group-kind 'Job.batch.example.org' "},
		"one without":    {types(map[string]runtime.Object{"v1": &Stable{}, "v2": &Beta{}, "v3": &Plain{}}), &Beta{}, false, "1 inconvertible types detected for group-kind 'Job.batch.example.org'"},
		"unknown":        {runtime.NewScheme(), &Beta{}, false, "no kind is registered"},
	} {
		got, err := conversion.IsConvertible(c.scheme, c.obj)
		if got != c.want || (err == nil) != (c.err == "") || err != nil && !strings.HasPrefix(err.Error(), c.err) {
			t.Errorf("%s: got %v, %v, want %v, %s", name, got, err, c.want, c.err)
		}
		if err != nil && name != "unknown" && !errors.As(err, partial) {
			t.Errorf("%s: the error is a %T", name, err)
		}
	}
}

type OtherHub struct{ Stable }

func (o *OtherHub) DeepCopyObject() runtime.Object { c := *o; return &c }

func TestDecoder(t *testing.T) {
	d := conversion.NewDecoder(newScheme())
	obj, gvk, err := d.Decode([]byte(job("v1beta1", "scheduleAt", "now")))
	if err != nil || obj.(*Beta).ScheduleAt != "now" || *gvk != version("v1beta1").WithKind("Job") {
		t.Errorf("got %v, %v, %v", obj, gvk, err)
	}
	var into Beta
	if err := d.DecodeInto([]byte(job("v1beta1", "scheduleAt", "now")), &into); err != nil || into.ScheduleAt != "now" {
		t.Errorf("got %v, %v", into, err)
	}
	if err := d.DecodeInto([]byte(job("v1", "schedule", "now")), &into); err == nil {
		t.Error("another version was decoded")
	}
}
