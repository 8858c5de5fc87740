package conversion

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/go-logr/logr"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"

	logf "flyball.dev/ctrl/log"
	conversionmetrics "flyball.dev/ctrl/webhook/conversion/metrics"
	"flyball.dev/ctrl/webhook/internal/review"
)

func log() logr.Logger { return logf.Current().WithName("conversion-webhook") }

// NewWebhookHandler returns a handler that answers ConversionReviews, in the version they come in.
// A kind is converted by its converter in registry, or else by the methods of its types in scheme.
// A request that is not a review is answered with 400; a conversion that fails, or panics, with a
// review with the status Failure. The handler is safe for concurrent use. It panics if scheme is
// nil.
func NewWebhookHandler(scheme *runtime.Scheme, registry Registry) http.Handler {
	return &webhook{scheme: scheme, decoder: NewDecoder(scheme), registry: registry}
}

// webhook serves ConversionReviews.
type webhook struct {
	scheme   *runtime.Scheme
	decoder  *Decoder
	registry Registry
}

var errNoRequest = errors.New("conversion request is nil")

func (wh *webhook) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	in, err := read(r)
	if err != nil {
		log().Error(err, "Failed to read a conversion request")
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	response, err := wh.convert(r.Context(), in.Request)
	if err != nil {
		log().Error(err, "Failed to convert", "request", in.Request.UID)
		response = failure(err)
	}
	response.UID = in.Request.UID
	// The type of reviews is v1; v1beta1 has the same fields.
	out := apiextensionsv1.ConversionReview{TypeMeta: in.TypeMeta, Response: response}
	err = review.Write(w, &out)
	if errors.As(err, new(review.EncodeError)) {
		out.Response = failure(err)
		out.Response.UID = in.Request.UID
		err = errors.Join(err, review.Write(w, &out))
	}
	if err != nil {
		log().Error(err, "Failed to write a response", "request", in.Request.UID)
	}
}

// read decodes the body of r. Its size is not limited: a review has all objects of a list request.
func read(r *http.Request) (*apiextensionsv1.ConversionReview, error) {
	if r.Body == nil {
		return nil, review.ErrEmpty
	}
	var in apiextensionsv1.ConversionReview
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		return nil, err
	}
	if in.Request == nil {
		return nil, errNoRequest
	}
	return &in, nil
}

// convert converts all objects of req. A panic is counted and returned as an error.
func (wh *webhook) convert(
	ctx context.Context, req *apiextensionsv1.ConversionRequest,
) (_ *apiextensionsv1.ConversionResponse, err error) {
	defer func() {
		if reason := recover(); reason != nil {
			conversionmetrics.WebhookPanics.WithLabelValues().Inc()
			for _, handle := range utilruntime.PanicHandlers {
				handle(ctx, reason)
			}
			err = errors.New("internal error occurred during conversion")
		}
	}()
	var converted []runtime.RawExtension
	for _, obj := range req.Objects {
		src, gvk, err := wh.decoder.Decode(obj.Raw)
		if err != nil {
			return nil, err
		}
		dst, err := wh.newObject(schema.FromAPIVersionAndKind(req.DesiredAPIVersion, gvk.Kind))
		if err != nil {
			return nil, err
		}
		if err := wh.convertObject(ctx, src, dst); err != nil {
			return nil, err
		}
		converted = append(converted, runtime.RawExtension{Object: dst})
	}
	return &apiextensionsv1.ConversionResponse{
		ConvertedObjects: converted,
		Result:           metav1.Status{Status: metav1.StatusSuccess},
	}, nil
}

func (wh *webhook) convertObject(ctx context.Context, src, dst runtime.Object) error {
	from, _, err := versions(src, dst)
	if err != nil {
		return err
	}
	if converter, ok := wh.registry.GetConverter(from.GroupKind()); ok {
		return converter.ConvertObject(ctx, src, dst)
	}
	return convertByMethods(wh.scheme, src, dst)
}

// newObject returns an empty object with its apiVersion and kind set.
func (wh *webhook) newObject(gvk schema.GroupVersionKind) (runtime.Object, error) {
	obj, err := wh.scheme.New(gvk)
	if err != nil {
		return nil, err
	}
	t, err := meta.TypeAccessor(obj)
	if err != nil {
		return nil, err
	}
	t.SetAPIVersion(gvk.GroupVersion().String())
	t.SetKind(gvk.Kind)
	return obj, nil
}

func failure(err error) *apiextensionsv1.ConversionResponse {
	return &apiextensionsv1.ConversionResponse{
		Result: metav1.Status{Status: metav1.StatusFailure, Message: err.Error()},
	}
}
