package authentication

import (
	"errors"
	"net/http"

	authenticationv1 "k8s.io/api/authentication/v1"
	authenticationv1beta1 "k8s.io/api/authentication/v1beta1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"

	"flyball.dev/ctrl/webhook/internal/review"
)

// maxRequestSize bounds the body of a review: a token has a few KiB.
const maxRequestSize = 1 << 20

var (
	authenticationScheme = runtime.NewScheme()
	reviews              = review.NewReader(authenticationScheme, maxRequestSize, "TokenReview",
		authenticationv1.SchemeGroupVersion, authenticationv1beta1.SchemeGroupVersion)
)

func init() {
	utilruntime.Must(authenticationv1.AddToScheme(authenticationScheme))
	utilruntime.Must(authenticationv1beta1.AddToScheme(authenticationScheme))
}

// unversionedReview is a TokenReview of any version: all have the same fields.
type unversionedReview struct {
	*authenticationv1.TokenReview
}

var errNoToken = errors.New("token is empty")

// ServeHTTP answers a review with a review of the same version. A request that is not a review, or
// has no token, gets one with an error: the HTTP status is 200 in any case.
func (wh *Webhook) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ctx := r.Context()
	if wh.WithContextFunc != nil {
		ctx = wh.WithContextFunc(ctx, r)
	}
	var req Request
	gvk, err := reviews.Read(r, &unversionedReview{&req.TokenReview})
	if err == nil && req.Spec.Token == "" {
		err = errNoToken
	}
	if err != nil {
		wh.getLogger(nil).Error(err, "Unable to read the request")
		wh.write(w, Errored(err).TokenReview)
		return
	}
	wh.getLogger(&req).V(5).Info("Received a request")

	out := wh.Handle(ctx, req).TokenReview
	out.SetGroupVersionKind(gvk)
	wh.write(w, out)
}

// write sends out.
func (wh *Webhook) write(w http.ResponseWriter, out authenticationv1.TokenReview) {
	logger := wh.getLogger(nil)
	if err := review.Write(w, out); err != nil {
		logger.Error(err, "Unable to write the response")
		return
	}
	logger.V(5).Info("Wrote a response", "requestID", out.UID, "authenticated", out.Status.Authenticated)
}
