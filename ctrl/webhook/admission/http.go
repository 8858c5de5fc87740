package admission

import (
	"errors"
	"net/http"

	admissionv1 "k8s.io/api/admission/v1"
	admissionv1beta1 "k8s.io/api/admission/v1beta1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"

	"flyball.dev/ctrl/webhook/internal/review"
)

// maxRequestSize bounds the body of a review. It has two objects at most, the old and the new one,
// of at most 3 MiB each, which is the limit of the API server, and less than 1 MiB beside them.
const maxRequestSize = 7 << 20

var (
	admissionScheme = runtime.NewScheme()
	reviews         = review.NewReader(admissionScheme, maxRequestSize, "AdmissionReview",
		admissionv1.SchemeGroupVersion, admissionv1beta1.SchemeGroupVersion)
)

func init() {
	utilruntime.Must(admissionv1.AddToScheme(admissionScheme))
	utilruntime.Must(admissionv1beta1.AddToScheme(admissionScheme))
}

// unversionedReview is an AdmissionReview of any version: all have the same fields.
type unversionedReview struct {
	admissionv1.AdmissionReview
}

// ServeHTTP answers a review with a review of the same version. A request that is not a review gets
// a review with an error. The HTTP status is 200 in any case, as the API server expects: the code
// of an error is in the review.
func (wh *Webhook) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ctx := r.Context()
	if wh.WithContextFunc != nil {
		ctx = wh.WithContextFunc(ctx, r)
	}
	var req Request
	in := unversionedReview{admissionv1.AdmissionReview{Request: &req.AdmissionRequest}}
	gvk, err := reviews.Read(r, &in)
	if err != nil {
		wh.getLogger(nil).Error(err, "Unable to read the request")
		response := Errored(statusCode(err), err)
		wh.write(w, admissionv1.AdmissionReview{Response: &response.AdmissionResponse})
		return
	}
	logger := wh.getLogger(&req)
	logger.V(5).Info("Received a request")
	response := wh.handle(ctx, req, logger)

	out := admissionv1.AdmissionReview{Response: &response.AdmissionResponse}
	out.SetGroupVersionKind(gvk)
	wh.write(w, out)
}

// statusCode returns the code for a request that cannot be read because of err.
func statusCode(err error) int32 {
	if errors.As(err, new(review.TooLargeError)) {
		return http.StatusRequestEntityTooLarge
	}
	return http.StatusBadRequest
}

// write sends out, or the error if it cannot be encoded.
func (wh *Webhook) write(w http.ResponseWriter, out admissionv1.AdmissionReview) {
	logger := wh.getLogger(nil)
	if err := review.Write(w, out); err != nil {
		logger.Error(err, "Unable to write the response")
		if errors.As(err, new(review.EncodeError)) {
			response := Errored(http.StatusInternalServerError, err)
			response.UID = out.Response.UID
			err = review.Write(w, admissionv1.AdmissionReview{TypeMeta: out.TypeMeta, Response: &response.AdmissionResponse})
			if err != nil {
				logger.Error(err, "Unable to write the error response")
			}
		}
		return
	}
	if logger = logger.V(5); logger.Enabled() {
		if result := out.Response.Result; result != nil {
			logger = logger.WithValues("code", result.Code, "reason", result.Reason, "message", result.Message)
		}
		logger.Info("Wrote a response", "requestID", out.Response.UID, "allowed", out.Response.Allowed)
	}
}
