package apiserver

import "net/http"

// filter wraps the handler of every request. It either answers the request or passes it on.
type filter struct {
	name string
	wrap func(next http.Handler) http.Handler
}

// pipeline returns the filters that a request passes before its handler, with the outermost filter first.
func (s *Server) pipeline() []filter {
	return []filter{
		{"recover", s.recoverPanics},
		{"context", s.addContext},
		{"info", s.addRequestInfo},
		{"warnings", s.recordWarnings},
		{"lifetime", s.boundLifetime},
		{"caching", s.forbidCaching},
		{"authentication", s.authenticate},
		{"audit", s.recordAudit},
		{"impersonation", s.impersonate},
		{"limit", s.limitInFlight},
		{"authorization", s.authorize},
	}
}

// chain wraps a handler in filters, with the outermost filter first.
func chain(filters []filter, handler http.Handler) http.Handler {
	for i := len(filters) - 1; i >= 0; i-- {
		handler = filters[i].wrap(handler)
	}
	return handler
}
