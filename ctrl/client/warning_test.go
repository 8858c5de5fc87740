package client_test

import (
	"context"
	"net/http"
	"slices"
	"testing"

	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/internal/fakeapi"
	"flyball.dev/ctrl/log"
)

// warnings collects the warnings that it handles.
type warnings []string

func (w *warnings) HandleWarningHeader(_ int, _ string, text string) { *w = append(*w, text) }

func (w *warnings) HandleWarningHeaderWithContext(_ context.Context, _ int, _ string, text string) {
	*w = append(*w, text)
}

// TestWarnings checks that warnings of the server are logged to the logger in the context, unless
// the configuration has a handler for them.
func TestWarnings(t *testing.T) {
	var logged []string
	logger := funcr.New(func(_, args string) { logged = append(logged, args) }, funcr.Options{})
	ctx := log.IntoContext(t.Context(), logger)
	var handled warnings
	for name, c := range map[string]struct {
		change          func(*rest.Config)
		logged, handled []string
	}{
		"by default":             {func(*rest.Config) {}, []string{`"level"=0 "msg"="old"`}, nil},
		"a handler":              {func(c *rest.Config) { c.WarningHandler = &handled }, nil, []string{"old"}},
		"a handler with context": {func(c *rest.Config) { c.WarningHandlerWithContext = &handled }, nil, []string{"old"}},
		"suppressed":             {func(c *rest.Config) { c.WarningHandler = rest.NoWarnings{} }, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			logged, handled = nil, nil
			config := &rest.Config{Host: "http://server", Transport: fakeapi.Func(func(*http.Request) (*http.Response, error) {
				resp := fakeapi.JSON(http.StatusOK, pod("a", "x"))
				resp.Header.Set("Warning", `299 - "old"`)
				return resp, nil
			})}
			c.change(config)
			cl, err := client.New(config, client.Options{Mapper: mapper()})
			if err == nil {
				err = cl.Get(ctx, client.ObjectKey{Namespace: "a", Name: "x"}, &corev1.Pod{})
			}
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(logged, c.logged) || !slices.Equal(handled, c.handled) {
				t.Errorf("logged %q, handled %q", logged, handled)
			}
		})
	}
}
