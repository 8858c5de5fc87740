package apiserver

import (
	"net/http"
)

// A stage does one thing to every request and hands it on, or answers it.
type stage struct {
	name string
	wrap func(next http.Handler) http.Handler
}

// pipeline is what a request passes, from top to bottom, before its handler.
func (s *Server) pipeline() []stage {
	return []stage{
		{"recover", s.recoverPanics},
		{"time", s.receive},
		{"info", s.readInfo},
		{"warnings", s.recordWarnings},
		{"lifetime", s.boundLifetime},
		{"caching", s.forbidCaching},
		{"authentication", s.authenticate},
		{"impersonation", s.impersonate},
		{"limit", s.limitInFlight},
		{"authorization", s.authorize},
	}
}

// chain puts the first stage outermost.
func chain(stages []stage, handler http.Handler) http.Handler {
	for i := len(stages) - 1; i >= 0; i-- {
		handler = stages[i].wrap(handler)
	}
	return handler
}
