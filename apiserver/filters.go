package apiserver

import (
	"context"
	"fmt"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	auditapi "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/endpoints/filters"
	"k8s.io/apiserver/pkg/endpoints/filters/impersonation"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/klog/v2"

	"flyball.dev/apiserver/builtin"
	"flyball.dev/apiserver/store"
)

var infoFactory = &request.RequestInfoFactory{
	APIPrefixes:          sets.NewString("api", "apis"),
	GrouplessAPIPrefixes: sets.NewString("api"),
}

// recoverPanics answers 500 if the handler of a request panics.
func (s *Server) recoverPanics(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			switch reason := recover(); reason {
			case nil:
			case http.ErrAbortHandler:
				panic(reason)
			default:
				klog.ErrorS(nil, "A request handler panicked", "method", r.Method, "path", r.URL.Path,
					"panic", fmt.Sprint(reason), "stack", string(debug.Stack()))
				http.Error(w, "This request caused apiserver to panic. Look in the logs for details.",
					http.StatusInternalServerError)
			}
		}()
		next.ServeHTTP(w, r)
	})
}

// progressHeader is a header of list requests and their responses. With it, a list makes the open watches of the
// resource send a bookmark that is not older than the list. Caches use the bookmark to wait until they are up to date.
const progressHeader = "Flyball-Watch-Progress"

// addContext adds the time of receipt, latency trackers and the audit context to the request context, and the audit ID
// to the response.
func (s *Server) addContext(next http.Handler) http.Handler {
	if s.audit == nil {
		next = withoutAudit(next)
	}
	next = filters.WithAuditInit(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx := r.Context()
		if audit.AuditContextFrom(ctx) != nil {
			ctx = nested{ctx}
		}
		ctx = request.WithLatencyTrackers(request.WithReceivedTimestamp(ctx, time.Now()))
		if r.Header.Get(progressHeader) != "" {
			ctx = store.WithProgressRequest(ctx, func() { w.Header().Set(progressHeader, "sent") })
		}
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// nested is the context of a request that the handler of another one sends in the process, such as a kubelet that reads the pod of a
// command. It has an audit context of its own.
type nested struct{ context.Context }

func (c nested) Value(key any) any {
	v := c.Context.Value(key)
	if _, ok := v.(*audit.AuditContext); ok {
		return nil
	}
	return v
}

// withoutAudit prevents handlers from recording annotations in the audit context of requests.
func withoutAudit(next http.Handler) http.Handler {
	none := audit.RequestAuditConfig{Level: auditapi.LevelNone}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = audit.AuditContextFrom(r.Context()).Init(none, nil) // fails only if it was called before
		next.ServeHTTP(w, r)
	})
}

// addRequestInfo adds the RequestInfo to the context, which names the object, resource or path of the request.
func (s *Server) addRequestInfo(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		info, err := infoFactory.NewRequestInfo(r)
		if err != nil {
			refuse(w, r, errors.NewBadRequest(err.Error()))
			return
		}
		next.ServeHTTP(w, r.WithContext(request.WithRequestInfo(r.Context(), info)))
	})
}

// recordWarnings adds a warning recorder to the context. The recorder sends warnings as response headers.
func (s *Server) recordWarnings(next http.Handler) http.Handler {
	return filters.WithWarningRecorder(next)
}

// forbidCaching sets Cache-Control, so that shared caches do not store responses.
func (s *Server) forbidCaching(next http.Handler) http.Handler { return filters.WithCacheControl(next) }

// authenticate adds the user to the context, and removes the credentials from the request.
func (s *Server) authenticate(next http.Handler) http.Handler {
	var failed http.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		refuse(w, r, errors.NewUnauthorized("Unauthorized"))
	})
	if s.audit != nil {
		failed = filters.WithFailedAuthenticationAudit(failed, s.audit.Sink, s.audit.Policy)
	}
	return filters.WithAuthentication(next, s.users, failed, nil, nil)
}

// recordAudit records requests in the audit log according to the audit policy. Without an audit log it passes requests
// on.
func (s *Server) recordAudit(next http.Handler) http.Handler {
	if s.audit == nil {
		return next
	}
	return filters.WithAudit(next, s.audit.Sink, s.audit.Policy, longRunning)
}

// impersonate replaces the user by the user of the Impersonate headers, if the request has any and the original user is
// authorized.
func (s *Server) impersonate(next http.Handler) http.Handler {
	impersonating := impersonation.WithConstrainedImpersonation(next, s.access, builtin.Codecs())
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for header := range r.Header {
			if strings.HasPrefix(header, "Impersonate-") {
				impersonating.ServeHTTP(w, r)
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

// authorize answers 403 for a request that no authorizer allows.
func (s *Server) authorize(next http.Handler) http.Handler {
	return filters.WithAuthorization(next, s.access, builtin.Codecs())
}

// refuse answers a request with an error, in the API version of the path.
func refuse(w http.ResponseWriter, r *http.Request, err error) {
	gv := schema.GroupVersion{Version: "v1"}
	if info, ok := request.RequestInfoFrom(r.Context()); ok && info.IsResourceRequest {
		gv = schema.GroupVersion{Group: info.APIGroup, Version: info.APIVersion}
	}
	responsewriters.ErrorNegotiated(err, builtin.Codecs(), gv, w, r)
}
