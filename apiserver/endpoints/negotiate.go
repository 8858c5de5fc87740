package endpoints

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/rest"

	"flyball.dev/apiserver/resource"
)

// anyType is the media type that matches every other one.
const anyType = "*/*"

// checkMediaTypes returns the error for a request with a body of an unsupported patch type, or with no acceptable
// response type. kube-apiserver's router rejects such requests to built-in resources before its handlers negotiate,
// except for storages with their own media types. Requests for custom resources and their subresources do not pass that
// router.
//
//upstream:k8s.io/apiserver/pkg/endpoints/handlers/negotiation.NegotiateOutputMediaType
func (h *Handler) checkMediaTypes(r *http.Request, served *resource.Resource, verb string) error {
	if isConnection(served) {
		return nil
	}
	if verb == "patch" && !anyOf(r.Header.Get("Content-Type"), served.PatchTypes) {
		return unacceptable(http.StatusUnsupportedMediaType, "415: Unsupported Media Type")
	}
	produced := h.mediaTypes
	if verb == "list" || verb == "watch" {
		produced = h.listMediaTypes
	}
	accept := r.Header.Get("Accept")
	if accept == "" || anyOf(accept, produced) {
		return nil
	}
	if _, ok := served.Storage.(rest.StorageMetadata); ok {
		return nil
	}
	return unacceptable(http.StatusNotAcceptable,
		fmt.Sprintf("406: Not Acceptable\n\nAvailable representations: %s", strings.Join(produced, ", ")))
}

func unacceptable(code int, message string) error {
	return errors.NewGenericServerResponse(code, "", schema.GroupResource{}, "", message, 0, false)
}

// anyOf reports whether the list has one of the media types of a header. It ignores parameters.
func anyOf(header string, types []string) bool {
	for one := range strings.SplitSeq(header, ",") {
		one, _, _ = strings.Cut(one, ";")
		if one = strings.TrimSpace(one); one == anyType || slices.Contains(types, one) {
			return true
		}
	}
	return false
}
