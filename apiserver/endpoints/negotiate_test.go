package endpoints

import (
	"net/http/httptest"
	"testing"

	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"flyball.dev/apiserver/resource"
)

// TestCheckMediaTypes checks which media types are refused before a request is handled.
func TestCheckMediaTypes(t *testing.T) {
	h := &Handler{mediaTypes: []string{"application/json"},
		listMediaTypes: []string{"application/json", "application/json;stream=watch"}}
	for _, c := range []struct {
		verb, accept, contentType string
		want                      metav1.StatusReason
	}{
		{verb: "get"},
		{verb: "get", accept: "*/*"},
		{verb: "get", accept: "text/html, application/json;as=Table"},
		{verb: "get", accept: "application/*", want: metav1.StatusReasonNotAcceptable},
		{verb: "get", accept: "text/html", want: metav1.StatusReasonNotAcceptable},
		{verb: "watch", accept: "application/json;stream=watch"},
		{verb: "create", contentType: "text/html"}, // its handler's matter
		{verb: "patch", contentType: "application/merge-patch+json; charset=utf-8"},
		{verb: "patch", contentType: "application/json", want: metav1.StatusReasonUnsupportedMediaType},
		{verb: "patch", want: metav1.StatusReasonUnsupportedMediaType},
		{verb: "patch", accept: "text/html", want: metav1.StatusReasonUnsupportedMediaType},
	} {
		r := httptest.NewRequest("GET", "/", nil)
		r.Header.Set("Accept", c.accept)
		r.Header.Set("Content-Type", c.contentType)
		served := &resource.Resource{PatchTypes: []string{string(types.MergePatchType)}}
		if got := errors.ReasonForError(h.checkMediaTypes(r, served, c.verb)); got != c.want && (c.want != "" || got != metav1.StatusReasonUnknown) {
			t.Errorf("%+v: %q", c, got)
		}
	}
}
