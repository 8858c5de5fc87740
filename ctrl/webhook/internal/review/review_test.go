package review

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	"go.uber.org/goleak"
	admissionv1 "k8s.io/api/admission/v1"
	admissionv1beta1 "k8s.io/api/admission/v1beta1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const limit = 1000

// anyReview is an AdmissionReview of any version.
type anyReview struct{ admissionv1.AdmissionReview }

func newAnyReview() *anyReview {
	return &anyReview{admissionv1.AdmissionReview{Request: &admissionv1.AdmissionRequest{}}}
}

func newCodec(tb testing.TB) *Reader {
	tb.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(admissionv1.AddToScheme(scheme), admissionv1beta1.AddToScheme(scheme)); err != nil {
		tb.Fatal(err)
	}
	return NewReader(scheme, limit, "AdmissionReview", admissionv1.SchemeGroupVersion, admissionv1beta1.SchemeGroupVersion)
}

func TestRead(t *testing.T) {
	v1 := admissionv1.SchemeGroupVersion.WithKind("AdmissionReview")
	v1beta1 := admissionv1beta1.SchemeGroupVersion.WithKind("AdmissionReview")
	const json = "application/json"
	text := func(s string) io.Reader { return strings.NewReader(s) }
	for name, c := range map[string]struct {
		contentType string
		body        io.Reader // nil for no body
		want        schema.GroupVersionKind
		uid         string
		err         string
	}{
		"v1":                 {json, text(`{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"1"}}`), v1, "1", ""},
		"v1beta1":            {json, text(`{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1beta1","request":{"uid":"1"}}`), v1beta1, "1", ""},
		"no version":         {json, text(`{"request":{"uid":"1"}}`), v1, "1", ""},
		"no request":         {json, text(`{}`), v1, "", ""},
		"null request":       {json, text(`{"request":null}`), v1, "", ""},
		"another kind":       {json, text(`{"kind":"Pod","apiVersion":"v1","request":{"uid":"1"}}`), schema.GroupVersionKind{Version: "v1", Kind: "Pod"}, "1", ""},
		"YAML":               {json, text("request: {uid: a}"), v1, "a", ""},
		"no body":            {json, nil, v1, "", "request body is empty"},
		"truncated":          {json, text(`{`), v1, "", "couldn't get version/kind; json parse error: unexpected end of JSON input"},
		"empty":              {json, text(``), v1, "", ""},
		"wrong type":         {json, text(`{"request":1}`), v1, "", "cannot unmarshal"},
		"no content type":    {"", text(`{}`), v1, "", "contentType=, expected application/json"},
		"other content type": {"text/plain", text(`{}`), v1, "", "contentType=text/plain, expected application/json"},
		"too large":          {json, text(strings.Repeat(" ", limit)), v1, "", "request entity is too large; limit is 1000 bytes"},
		"largest":            {json, text(strings.Repeat(" ", limit-3) + "{}"), v1, "", ""},
		"endless":            {json, endless{}, v1, "", "request entity is too large; limit is 1000 bytes"},
		"broken":             {json, io.MultiReader(text(`{`), brokenReader{}), v1, "", "unexpected EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			r := &http.Request{Method: http.MethodPost, Header: http.Header{"Content-Type": {c.contentType}}}
			if c.body != nil {
				r.Body = io.NopCloser(c.body)
			}
			in := newAnyReview()
			var req *admissionv1.AdmissionRequest = in.Request
			got, err := newCodec(t).Read(r, in)
			if c.err == "" && err != nil || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
				t.Errorf("the error is %v, want %q", err, c.err)
			}
			if got != c.want {
				t.Errorf("the version is %v, want %v", got, c.want)
			}
			if string(req.UID) != c.uid {
				t.Errorf("the UID is %q, want %q", req.UID, c.uid)
			}
		})
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

func TestWriteErrors(t *testing.T) {
	w := httptest.NewRecorder()
	if err := Write(w, make(chan int)); !errors.As(err, new(EncodeError)) || w.Body.Len() > 0 {
		t.Errorf("the error is %v, and %q was written", err, w.Body)
	}
	if err := Write(brokenWriter{w}, 1); !errors.Is(err, io.ErrClosedPipe) || errors.As(err, new(EncodeError)) {
		t.Errorf("the error is %v", err)
	}
}

type brokenWriter struct{ http.ResponseWriter }

func (brokenWriter) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

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

// FuzzDecode compares decoding in one pass with how the API machinery decodes.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{
		`{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"1","object":{"a":[1]},"options":null}}`,
		`{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1beta1","request":{"dryRun":true},"response":{}}`,
		`{"kind":"AdmissionReview","request":{}}`, `{"apiVersion":"admission.k8s.io/v1"}`, `{"apiVersion":"a/b/c"}`,
		`{"KIND":"AdmissionReview"}`, `{"kind":1}`, `{"request":null}`, `[]`, `null`, `{}{}`, `{`, ``, "request:\n  uid: a", "k8s\x00",
		`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","kind":"Pod"}`,
	} {
		f.Add([]byte(seed))
	}
	codec := newCodec(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		if oddlyNamed(data) {
			return
		}
		fast, slow := newAnyReview(), newAnyReview()
		gvk, err := codec.decode(bytes.Clone(data), fast)

		slow.SetGroupVersionKind(codec.preferred)
		_, wantGVK, wantErr := codec.universal.Decode(bytes.Clone(data), nil, slow)
		want := codec.preferred
		if wantErr == nil && wantGVK != nil && !wantGVK.Empty() {
			want = *wantGVK
		}
		if (err == nil) != (wantErr == nil) || err != nil && err.Error() != wantErr.Error() {
			t.Fatalf("the error is %v, want %v", err, wantErr)
		}
		if gvk != want {
			t.Fatalf("the version is %v, want %v", gvk, want)
		}
		if err == nil && !reflect.DeepEqual(fast, slow) {
			t.Fatalf("decoded\n%#v, want\n%#v", fast, slow)
		}
	})
}
