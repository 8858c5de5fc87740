package endpoints

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// TestListOfEndedRequest: a list sends nothing more after the timeout of its request. Before the first byte, the client gets
// kube-apiserver's error.
func TestListOfEndedRequest(t *testing.T) {
	for name, begun := range map[string]bool{"before the beginning": false, "later": true} {
		t.Run(name, func(t *testing.T) {
			deadline, cancel := context.WithCancelCause(t.Context())
			r := httptest.NewRequest(http.MethodGet, "/api/v1/pods", nil).WithContext(endedContext{deadline})
			recorder := httptest.NewRecorder()
			l := newListResponse(recorder, r)
			l.begin("application/json")
			want := 0
			if begun {
				l.write(make([]byte, 2*listBuffer))
				want = 2 * listBuffer
			}
			cancel(nil)
			l.write(make([]byte, 2*listBuffer))
			l.close()
			if l.begun != begun || recorder.Body.Len() != want {
				t.Errorf("the response has begun: %v, with %d bytes", l.begun, recorder.Body.Len())
			}
			if l.err == nil || !begun && !apierrors.IsTimeout(l.err) {
				t.Errorf("the error is %v", l.err)
			}
		})
	}
}

// endedContext is a context with the error of a deadline when it is cancelled.
type endedContext struct{ context.Context }

func (c endedContext) Err() error {
	if c.Context.Err() != nil {
		return context.DeadlineExceeded
	}
	return nil
}
